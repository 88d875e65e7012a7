import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;

/** Answers with a parameter of a request. */
public final class Reader extends HttpServlet {
    @Override
    protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.setContentType("text/plain;charset=utf-8");
        byte[] answer;
        try {
            answer = Answer.bytes(request.getParameter(request.getHeader("X-Asked")));
        } catch (Throwable error) {
            response.setStatus(400);
            answer = Answer.refusal(error);
        }
        response.getOutputStream().write(answer);
    }
}
