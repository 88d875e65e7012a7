import jakarta.servlet.http.Cookie;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;

/** Answers with what a servlet has of a request; on a route, with its name. */
public final class Reader extends HttpServlet {
    private final String route;

    Reader(String route) {
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
