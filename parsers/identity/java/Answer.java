import java.nio.charset.StandardCharsets;

/** An object of what readers have of a request, as JSON. */
final class Answer {
    private final StringBuilder json = new StringBuilder("{");

    /** A value that a reader may refuse. */
    interface Read {
        String value() throws Exception;
    }

    Answer with(String reader, Read read) {
        String value;
        try {
            value = read.value();
        } catch (Exception refused) {
            return this;
        }
        if (value == null) return this;
        if (json.length() > 1) json.append(',');
        json.append(quote(reader)).append(':').append(quote(value));
        return this;
    }

    byte[] bytes() {
        return (json + "}").getBytes(StandardCharsets.US_ASCII);
    }

    private static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c < ' ' || c > '~' || c == '"' || c == '\\') {
                quoted.append(String.format("\\u%04x", (int) c));
            } else {
                quoted.append(c);
            }
        }
        return quoted.append('"').toString();
    }
}
