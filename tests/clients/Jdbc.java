import java.sql.*;
import java.util.*;

/** pgjdbc against a server: metadata, prepared statements, fetchSize, types, errors. Prints one line for each check. */
public class Jdbc {
    public static void main(String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            metadata(connection);
            prepared(connection);
            portions(connection);
            types(connection);
            errors(connection);
        }
    }

    static void metadata(Connection connection) throws SQLException {
        DatabaseMetaData about = connection.getMetaData();
        System.out.println("product " + about.getDatabaseProductName());
        List<String> views = new ArrayList<>();
        try (ResultSet found = about.getTables(null, "public", "%", new String[] {"VIEW"})) {
            while (found.next()) views.add(found.getString("TABLE_NAME"));
        }
        System.out.println("views " + new TreeSet<>(views));
        List<String> columns = new ArrayList<>();
        try (ResultSet found = about.getColumns(null, "public", "Hot", "%")) {
            while (found.next()) columns.add(found.getString("COLUMN_NAME") + ":" + found.getString("TYPE_NAME"));
        }
        System.out.println("columns " + columns);
        List<String> schemas = new ArrayList<>();
        try (ResultSet found = about.getSchemas()) {
            while (found.next()) schemas.add(found.getString(1));
        }
        System.out.println("public " + schemas.contains("public"));
        List<String> types = new ArrayList<>();
        try (ResultSet found = about.getTypeInfo()) {
            while (found.next()) types.add(found.getString("TYPE_NAME"));
        }
        types.retainAll(List.of("bool", "int4", "int8", "float8", "numeric", "text", "timestamp", "nothing"));
        System.out.println("types " + new java.util.TreeSet<>(types));
        List<String> tables = new ArrayList<>();
        try (ResultSet found = about.getTables(null, "public", "%", new String[] {"TABLE"})) {
            while (found.next()) tables.add(found.getString("TABLE_NAME"));
        }
        System.out.println("tables " + tables);
        List<String> keys = new ArrayList<>();
        try (ResultSet found = about.getPrimaryKeys(null, "public", "Hot")) {
            int width = found.getMetaData().getColumnCount();
            while (found.next()) keys.add(found.getString("COLUMN_NAME"));
            System.out.println("keys " + keys + " of " + width + " columns");
        }
    }

    static void prepared(Connection connection) throws SQLException {
        String text = "SELECT room, temp, note FROM Hot WHERE room = ? AND temp > ?";
        try (PreparedStatement statement = connection.prepareStatement(text)) {
            // More than prepareThreshold times, so that the server's own statements and binary transfer are used.
            for (int i = 0; i < 12; i++) {
                statement.setInt(1, i % 2 == 0 ? 1 : 3);
                statement.setDouble(2, 80.0);
                try (ResultSet found = statement.executeQuery()) {
                    found.next();
                    if (i >= 10) System.out.println("row " + found.getInt(1) + " " + found.getDouble(2) + " " + found.getString(3));
                }
            }
            System.out.println("shape " + statement.getMetaData().getColumnCount() + " " + statement.getParameterMetaData().getParameterCount());
        }
    }

    static void portions(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
            statement.setFetchSize(7);
            int rows = 0;
            try (ResultSet found = statement.executeQuery("SELECT a.room FROM PerRoom AS a, PerRoom AS b, PerRoom AS c")) {
                while (found.next()) rows++;
            }
            System.out.println("portions " + rows);
        }
        connection.commit();
        connection.setAutoCommit(true);
    }

    static void types(Connection connection) throws SQLException {
        String text = "SELECT 9007199254740993 AS a, 1.5::DECIMAL(10,2) AS b, TIMESTAMP '2026-01-02 03:04:05.678' AS c,"
            + " DATE '2026-01-02' AS d, true AS e, NULL AS f, 'ä€' AS g";
        try (Statement statement = connection.createStatement(); ResultSet found = statement.executeQuery(text)) {
            found.next();
            System.out.println("values " + found.getLong(1) + " " + found.getBigDecimal(2) + " " + found.getTimestamp(3) + " "
                + found.getDate(4) + " " + found.getBoolean(5) + " " + found.getString(6) + " " + found.getString(7));
        }
    }

    static void errors(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("SELECT nothing FROM Hot");
        } catch (SQLException error) {
            System.out.println("error " + error.getSQLState().substring(0, 2) + " " + error.getMessage().contains("TM"));
        }
        try (Statement statement = connection.createStatement()) {
            statement.execute("CREATE VIEW OfJava AS SELECT room FROM Hot");
            statement.execute("DROP VIEW OfJava");
            System.out.println("defined");
        }
    }
}
