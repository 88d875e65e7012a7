import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** What a way of reading answers: the value that it has for the asked name. */
final class Answer {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Answer() {}

    static String of(Object value) throws IOException {
        if (value == null) return "none";
        if (value instanceof String) return "text " + JSON.writeValueAsString(value);
        if (value instanceof Number) return "number " + value;
        return "other " + JSON.writeValueAsString(value);
    }

    static byte[] refusal(Throwable error) {
        String text = "refused: " + error.getClass().getSimpleName() + " " + String.valueOf(error.getMessage()).split("\n")[0];
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static byte[] bytes(Object value) throws IOException {
        return of(value).getBytes(StandardCharsets.UTF_8);
    }
}
