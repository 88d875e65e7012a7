// What applications of ASP.NET read, on Mono. The first element of a path is the way to read, the header X-Asked the name.
using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Text;
using System.Web;
using System.Web.Script.Serialization;
using Newtonsoft.Json;
using Newtonsoft.Json.Linq;

public class User { public object email { get; set; } }

public class Document {
    public object model { get; set; }
    public User user { get; set; }
}

public sealed class Reader : IHttpHandler {
    public bool IsReusable { get { return true; } }

    public void ProcessRequest(HttpContext context) {
        string way = context.Request.Path.Substring(1), asked = context.Request.Headers["X-Asked"], text;
        try {
            text = Answer(Read(context.Request, way, asked));
        } catch (Exception error) {
            context.Response.StatusCode = 400;
            text = "refused: " + error.GetType().Name;
        }
        context.Response.ContentType = "text/plain";
        byte[] bytes = Encoding.UTF8.GetBytes(text);
        context.Response.OutputStream.Write(bytes, 0, bytes.Length);
    }

    static object Read(HttpRequest request, string way, string asked) {
        if (way == "Form" || way == "Item") {
            string value = way == "Form" ? request.Form[asked] : request[asked];
            return value == null && request.Files[asked] != null ? (object) new[] { request.Files[asked].FileName } : value;
        }
        string body = new StreamReader(request.InputStream, Encoding.UTF8, false).ReadToEnd();
        switch (way) {
        case "Newtonsoft-tree":
            JToken at = JObject.Parse(body);
            foreach (string name in asked.Split('.')) at = at is JObject ? at[name] : null;
            return at is JValue ? ((JValue) at).Value : at;
        case "Newtonsoft-object":
            return Of(JsonConvert.DeserializeObject<Document>(body), asked);
        case "JavaScriptSerializer":
            return Of(new JavaScriptSerializer().Deserialize<Document>(body), asked);
        default:
            throw new ArgumentException(way);
        }
    }

    static object Of(Document document, string asked) {
        if (asked == "model") return document.model;
        return document.user == null ? null : document.user.email;
    }

    static string Answer(object value) {
        if (value == null) return "none";
        if (value is string) return "text " + Quote((string) value);
        if (value is DateTime) return "other " + Quote(((DateTime) value).ToString("o"));
        if (value is bool) return (bool) value ? "other true" : "other false";
        if (value is double) return "number " + ((double) value).ToString("R", CultureInfo.InvariantCulture);
        if (value is IFormattable && value.GetType().IsValueType) return "number " + ((IFormattable) value).ToString(null, CultureInfo.InvariantCulture);
        return "other " + JsonConvert.SerializeObject(value);
    }

    static string Quote(string text) {
        var quoted = new StringBuilder("\"");
        foreach (char c in text) {
            if (c >= ' ' && c <= '~' && c != '"' && c != '\\') quoted.Append(c);
            else quoted.AppendFormat("\\u{0:x4}", (int) c);
        }
        return quoted.Append('"').ToString();
    }
}
