{# A model is one statement: a view that stands is replaced, not renamed. #}
{% materialization view, adapter='postgres' %}
  {%- set made = this.incorporate(type='view') -%}
  {{ run_hooks(pre_hooks) }}
  {% call statement('main') %}
    create or replace view {{ made }} as {{ sql }}
  {% endcall %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [made]}) }}
{% endmaterialization %}
