"""The relations of pg_catalog and information_schema: their columns as far as tools read them.

Types: a column is text where nothing is said; `i` whole number, `o` number of a thing, `b` truth value, `l` list of
texts, `n` list of whole numbers. Names of things compare without regard to case (`c`), as names do in the language.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

_TYPES = {
    "": "VARCHAR",
    "c": "VARCHAR COLLATE NOCASE",
    "i": "BIGINT",
    "o": "UINTEGER",
    "b": "BOOLEAN",
    "l": "VARCHAR[]",
    "n": "BIGINT[]",
    "f": "DOUBLE",
    "t": "TIMESTAMP",
}
_ARROW = {
    "": pa.string(),
    "c": pa.string(),
    "i": pa.int64(),
    "o": pa.uint32(),
    "b": pa.bool_(),
    "l": pa.list_(pa.string()),
    "n": pa.list_(pa.int64()),
    "f": pa.float64(),
    "t": pa.timestamp("us"),
}

RELATIONS: dict[str, str] = {
    "pg_namespace": "oid:o nspname:c nspowner:o nspacl:l",
    "pg_class": "oid:o relname:c relnamespace:o reltype:o reloftype:o relowner:o relam:o relfilenode:o reltablespace:o"
    " relpages:i reltuples:f relallvisible:i reltoastrelid:o relhasindex:b relisshared:b relpersistence relkind"
    " relnatts:i relchecks:i relhasrules:b relhastriggers:b relhassubclass:b relrowsecurity:b relforcerowsecurity:b"
    " relispopulated:b relreplident relispartition:b relrewrite:o relfrozenxid:i relminmxid:i relacl:l reloptions:l"
    " relpartbound",
    "pg_attribute": "attrelid:o attname:c atttypid:o attstattarget:i attlen:i attnum:i attndims:i attcacheoff:i"
    " atttypmod:i attbyval:b attalign attstorage attcompression attnotnull:b atthasdef:b atthasmissing:b attidentity"
    " attgenerated attisdropped:b attislocal:b attinhcount:i attcollation:o attacl:l attoptions:l attfdwoptions:l"
    " attmissingval",
    "pg_type": "oid:o typname:c typnamespace:o typowner:o typlen:i typbyval:b typtype typcategory typispreferred:b"
    " typisdefined:b typdelim typrelid:o typsubscript typelem:o typarray:o typinput typoutput typreceive typsend"
    " typmodin typmodout typanalyze typalign typstorage typnotnull:b typbasetype:o typtypmod:i typndims:i"
    " typcollation:o typdefaultbin typdefault typacl:l",
    "pg_database": "oid:o datname:c datdba:o encoding:i datlocprovider datistemplate:b datallowconn:b datconnlimit:i"
    " datfrozenxid:i datminmxid:i dattablespace:o datcollate datctype daticulocale datcollversion datacl:l",
    "pg_roles": "oid:o rolname:c rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b"
    " rolconnlimit:i rolpassword rolvaliduntil:t rolbypassrls:b rolconfig:l",
    "pg_user": "usename:c usesysid:o usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd valuntil:t useconfig:l",
    "pg_auth_members": "roleid:o member:o grantor:o admin_option:b",
    "pg_am": "oid:o amname:c amhandler amtype",
    "pg_proc": "oid:o proname:c pronamespace:o proowner:o prolang:o procost:f prorows:f provariadic:o prosupport"
    " prokind prosecdef:b proleakproof:b proisstrict:b proretset:b provolatile proparallel pronargs:i"
    " pronargdefaults:i prorettype:o proargtypes:n proallargtypes:n proargmodes:l proargnames:l proargdefaults"
    " protrftypes:n prosrc probin prosqlbody proconfig:l proacl:l",
    "pg_language": "oid:o lanname:c lanowner:o lanispl:b lanpltrusted:b lanplcallfoid:o laninline:o"
    " lanvalidator:o lanacl:l",
    "pg_aggregate": "aggfnoid:o aggkind aggnumdirectargs:i",
    "pg_attrdef": "oid:o adrelid:o adnum:i adbin",
    "pg_constraint": "oid:o conname:c connamespace:o contype condeferrable:b condeferred:b convalidated:b conrelid:o"
    " contypid:o conindid:o conparentid:o confrelid:o confupdtype confdeltype confmatchtype conislocal:b coninhcount:i"
    " connoinherit:b conkey:n confkey:n conpfeqop:n conppeqop:n conffeqop:n confdelsetcols:n conexclop:n conbin",
    "pg_index": "indexrelid:o indrelid:o indnatts:i indnkeyatts:i indisunique:b indnullsnotdistinct:b indisprimary:b"
    " indisexclusion:b indimmediate:b indisclustered:b indisvalid:b indcheckxmin:b indisready:b indislive:b"
    " indisreplident:b indkey:n indcollation:n indclass:n indoption:n indexprs indpred",
    "pg_inherits": "inhrelid:o inhparent:o inhseqno:i inhdetachpending:b",
    "pg_description": "objoid:o classoid:o objsubid:i description",
    "pg_shdescription": "objoid:o classoid:o description",
    "pg_collation": "oid:o collname:c collnamespace:o collowner:o collprovider collisdeterministic:b collencoding:i"
    " collcollate collctype colliculocale collversion",
    "pg_tablespace": "oid:o spcname:c spcowner:o spcacl:l spcoptions:l",
    "pg_settings": "name:c setting unit category short_desc extra_desc context vartype source min_val max_val"
    " enumvals:l"
    " boot_val reset_val sourcefile sourceline:i pending_restart:b",
    "pg_trigger": "oid:o tgrelid:o tgparentid:o tgname:c tgfoid:o tgtype:i tgenabled tgisinternal:b tgconstrrelid:o"
    " tgconstrindid:o tgconstraint:o tgdeferrable:b tginitdeferred:b tgnargs:i tgattr:n tgargs tgqual tgoldtable"
    " tgnewtable",
    "pg_rewrite": "oid:o rulename:c ev_class:o ev_type ev_enabled is_instead:b ev_qual ev_action",
    "pg_policy": "oid:o polname:c polrelid:o polcmd polpermissive:b polroles:n polqual polwithcheck",
    "pg_publication": "oid:o pubname:c pubowner:o puballtables:b pubinsert:b pubupdate:b pubdelete:b"
    " pubtruncate:b pubviaroot:b",
    "pg_publication_rel": "oid:o prpubid:o prrelid:o prqual prattrs:n",
    "pg_publication_namespace": "oid:o pnpubid:o pnnspid:o",
    "pg_statistic_ext": "oid:o stxrelid:o stxname:c stxnamespace:o stxowner:o stxstattarget:i stxkeys:n"
    " stxkind:l stxexprs",
    "pg_enum": "oid:o enumtypid:o enumsortorder:f enumlabel",
    "pg_range": "rngtypid:o rngsubtype:o rngmultitypid:o rngcollation:o rngsubopc:o rngcanonical rngsubdiff",
    "pg_extension": "oid:o extname:c extowner:o extnamespace:o extrelocatable:b extversion extconfig:n extcondition:l",
    "pg_available_extensions": "name:c default_version installed_version comment",
    "pg_depend": "classid:o objid:o objsubid:i refclassid:o refobjid:o refobjsubid:i deptype",
    "pg_sequence": "seqrelid:o seqtypid:o seqstart:i seqincrement:i seqmax:i seqmin:i seqcache:i seqcycle:b",
    "pg_foreign_table": "ftrelid:o ftserver:o ftoptions:l",
    "pg_foreign_server": "oid:o srvname:c srvowner:o srvfdw:o srvtype srvversion srvacl:l srvoptions:l",
    "pg_foreign_data_wrapper": "oid:o fdwname:c fdwowner:o fdwhandler:o fdwvalidator:o fdwacl:l fdwoptions:l",
    "pg_partitioned_table": "partrelid:o partstrat partnatts:i partdefid:o partattrs:n partclass:n"
    " partcollation:n partexprs",
    "pg_event_trigger": "oid:o evtname:c evtevent evtowner:o evtfoid:o evtenabled evttags:l",
    "pg_operator": "oid:o oprname:c oprnamespace:o oprowner:o oprkind oprleft:o oprright:o oprresult:o",
    "pg_opclass": "oid:o opcmethod:o opcname:c opcnamespace:o opcowner:o opcfamily:o opcintype:o opcdefault:b",
    "pg_cast": "oid:o castsource:o casttarget:o castfunc:o castcontext castmethod",
    "pg_default_acl": "oid:o defaclrole:o defaclnamespace:o defaclobjtype defaclacl:l",
    "pg_db_role_setting": "setdatabase:o setrole:o setconfig:l",
    "pg_locks": "locktype database:i relation:i pid:i mode granted:b",
    "pg_stat_activity": "datid:o datname:c pid:i usesysid:o usename:c application_name client_addr backend_start:t"
    " state query backend_type",
    "pg_stat_user_tables": "relid:i schemaname:c relname:c seq_scan:i n_live_tup:i",
    "pg_tables": "schemaname:c tablename:c tableowner:c tablespace hasindexes:b hasrules:b hastriggers:b rowsecurity:b",
    "pg_views": "schemaname:c viewname:c viewowner:c definition",
    "pg_matviews": "schemaname:c matviewname:c matviewowner:c tablespace hasindexes:b ispopulated:b definition",
    "pg_indexes": "schemaname:c tablename:c indexname:c tablespace indexdef",
    "pg_sequences": "schemaname:c sequencename:c sequenceowner:c data_type start_value:i min_value:i"
    " max_value:i increment_by:i",
}
INFORMATION: dict[str, str] = {
    "schemata": "catalog_name:c schema_name:c schema_owner:c default_character_set_catalog default_character_set_schema"
    " default_character_set_name sql_path",
    "tables": "table_catalog:c table_schema:c table_name:c table_type self_referencing_column_name reference_generation"
    " user_defined_type_catalog user_defined_type_schema user_defined_type_name is_insertable_into is_typed"
    " commit_action",
    "views": "table_catalog:c table_schema:c table_name:c view_definition check_option is_updatable is_insertable_into"
    " is_trigger_updatable is_trigger_deletable is_trigger_insertable_into",
    "columns": "table_catalog:c table_schema:c table_name:c column_name:c ordinal_position:i column_default is_nullable"
    " data_type character_maximum_length:i character_octet_length:i numeric_precision:i numeric_precision_radix:i"
    " numeric_scale:i datetime_precision:i interval_type interval_precision:i character_set_name collation_name"
    " domain_catalog domain_schema domain_name udt_catalog udt_schema udt_name dtd_identifier is_identity"
    " identity_generation is_generated generation_expression is_updatable",
    "key_column_usage": "constraint_catalog:c constraint_schema:c constraint_name:c table_catalog:c table_schema:c"
    " table_name:c column_name:c ordinal_position:i position_in_unique_constraint:i",
    "table_constraints": "constraint_catalog:c constraint_schema:c constraint_name:c table_catalog:c table_schema:c"
    " table_name:c constraint_type is_deferrable initially_deferred enforced",
    "constraint_column_usage": "table_catalog:c table_schema:c table_name:c column_name:c constraint_catalog:c"
    " constraint_schema:c constraint_name:c",
    "referential_constraints": "constraint_catalog:c constraint_schema:c constraint_name:c unique_constraint_catalog:c"
    " unique_constraint_schema:c unique_constraint_name:c match_option update_rule delete_rule",
    "routines": "specific_catalog:c specific_schema:c specific_name:c routine_catalog:c routine_schema:c routine_name:c"
    " routine_type data_type",
    "parameters": "specific_catalog:c specific_schema:c specific_name:c ordinal_position:i parameter_mode"
    " parameter_name:c"
    " data_type",
    "sequences": "sequence_catalog:c sequence_schema:c sequence_name:c data_type",
    "table_privileges": "grantor:c grantee:c table_catalog:c table_schema:c table_name:c privilege_type is_grantable",
    "role_table_grants": "grantor:c grantee:c table_catalog:c table_schema:c table_name:c privilege_type is_grantable",
    "triggers": "trigger_catalog:c trigger_schema:c trigger_name:c event_object_table:c",
    "enabled_roles": "role_name:c",
    "applicable_roles": "grantee:c role_name:c is_grantable",
}


def arrow_schema(definition: str) -> pa.Schema:
    """The columns of a relation.

    >>> arrow_schema("oid:i relname:c relkind").names
    ['oid', 'relname', 'relkind']
    """
    parts = (part.partition(":") for part in definition.split())
    return pa.schema([(column, _ARROW[kind]) for column, _, kind in parts])


def column_types(name: str) -> dict[str, str | exp.DataType]:
    """The columns of a relation of the catalog with their types.

    >>> column_types("pg_am")["amname"]
    'VARCHAR'
    """
    parts = (part.partition(":") for part in {**RELATIONS, **INFORMATION}[name].split())
    oid = exp.DataType.build("oid", udt=True)
    return {column: oid if kind == "o" else _TYPES[kind].partition(" ")[0] for column, _, kind in parts}


def definitions() -> list[str]:
    """CREATE statements of all relations, in the schemas `pg` and `info`."""
    made = ["CREATE SCHEMA pg", "CREATE SCHEMA info"]
    for schema, relations in (("pg", RELATIONS), ("info", INFORMATION)):
        for name, definition in relations.items():
            parts = (part.partition(":") for part in definition.split())
            columns = ", ".join(f'"{column}" {_TYPES[kind]}' for column, _, kind in parts)
            made.append(f"CREATE TABLE {schema}.{name} ({columns})")
    return made
