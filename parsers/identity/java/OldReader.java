import javax.servlet.http.Cookie;
import javax.servlet.http.HttpServlet;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import java.io.IOException;

/** Answers with what a servlet of javax has of a request; on a route, with its name. */
public final class OldReader extends HttpServlet {
    private final String route;

    OldReader(String route) {
        this.route = route;
    }

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.setContentType("application/json");
        response.getOutputStream().write(answer(request).bytes());
    }

    private Answer answer(HttpServletRequest request) {
        if (!route.equals("r")) {
            String rest = request.getPathInfo();
            return new Answer().with("route", () -> rest == null ? route : route + " " + rest.substring(1));
        }
        return new Answer()
            .with("key", () -> request.getHeader("X-Api-Key"))
            .with("cookie", () -> cookie(request.getCookies()))
            .with("query", () -> request.getParameter("token"))
            .with("host", () -> request.getServerName());
    }

    private static String cookie(Cookie[] cookies) {
        if (cookies == null) return null;
        for (Cookie cookie : cookies) {
            if (cookie.getName().equals("session")) return cookie.getValue();
        }
        return null;
    }
}
