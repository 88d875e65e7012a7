import java.util.Map;
import javax.servlet.MultipartConfigElement;
import javax.servlet.http.HttpServletRequest;
import org.apache.catalina.Context;
import org.apache.catalina.Wrapper;
import org.apache.catalina.startup.Tomcat;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.http.ResponseEntity;
import org.springframework.util.MultiValueMap;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestHeader;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.bind.annotation.ControllerAdvice;
import org.springframework.web.context.support.AnnotationConfigWebApplicationContext;
import org.springframework.web.multipart.support.StandardServletMultipartResolver;
import org.springframework.web.servlet.DispatcherServlet;
import org.springframework.web.servlet.config.annotation.EnableWebMvc;

/** Spring MVC on Tomcat 9, with the filter of UTF-8 that Spring Boot has: SpringServer PORT. */
public final class SpringServer {
    public static class User { public Object email; }
    public static class Document { public Object model; public User user; }

    /** Takes the fields of a form by its setters, as a controller's command object does. */
    public static class Form {
        private String email;
        private String model;
        public void setEmail(String value) { email = value; }
        public String getEmail() { return email; }
        public void setModel(String value) { model = value; }
        public String getModel() { return model; }
    }

    @RestController
    public static class Controller {
        @PostMapping(value = "/param", produces = "text/plain;charset=utf-8")
        public byte[] param(@RequestHeader("X-Asked") String asked, HttpServletRequest request, @RequestParam Map<String, String> all)
                throws Exception {
            return Answer.bytes(all.get(asked));
        }

        @PostMapping("/bind")
        public byte[] bind(@RequestHeader("X-Asked") String asked, Form form) throws Exception {
            return Answer.bytes(asked.equals("email") ? form.getEmail() : asked.equals("model") ? form.getModel() : null);
        }

        @PostMapping("/body")
        public byte[] body(@RequestHeader("X-Asked") String asked, @RequestBody MultiValueMap<String, String> form) throws Exception {
            return Answer.bytes(form.getFirst(asked));
        }

        @PostMapping("/json")
        public byte[] json(@RequestHeader("X-Asked") String asked, @RequestBody Document document) throws Exception {
            return Answer.bytes(asked.equals("model") ? document.model : document.user == null ? null : document.user.email);
        }
    }

    @ControllerAdvice
    public static class Refusals {
        @ExceptionHandler(Throwable.class)
        public ResponseEntity<byte[]> refuse(Throwable error) {
            return ResponseEntity.status(400).body(Answer.refusal(error));
        }
    }

    @Configuration
    @EnableWebMvc
    public static class Beans {
        @Bean public Controller controller() { return new Controller(); }
        @Bean public Refusals refusals() { return new Refusals(); }
        @Bean public StandardServletMultipartResolver multipartResolver() { return new StandardServletMultipartResolver(); }
    }

    public static void main(String[] arguments) throws Exception {
        System.out.println("Spring " + org.springframework.core.SpringVersion.getVersion()
            + ", Tomcat " + org.apache.catalina.util.ServerInfo.getServerNumber());
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir("/srv/spring");
        tomcat.setPort(Integer.parseInt(arguments[0]));
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        Context context = tomcat.addContext("", "/srv");
        context.setRequestCharacterEncoding("UTF-8");
        AnnotationConfigWebApplicationContext beans = new AnnotationConfigWebApplicationContext();
        beans.register(Beans.class);
        Wrapper servlet = Tomcat.addServlet(context, "spring", new DispatcherServlet(beans));
        servlet.setMultipartConfigElement(new MultipartConfigElement("/srv"));
        context.addServletMappingDecoded("/*", "spring");
        tomcat.start();
    }
}
