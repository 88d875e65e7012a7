;; Ring, which frameworks of Clojure are built on: server.clj PORT, behind the server of the JDK. It prints the versions first.
;;
;; The first element of a path is the way to read, the header X-Asked the name that is asked for.
(require '[cheshire.core :as cheshire]
         '[clojure.string :as string]
         '[ring.middleware.multipart-params :refer [multipart-params-request]]
         '[ring.middleware.nested-params :refer [nested-params-request]]
         '[ring.middleware.params :refer [params-request]])
(import '[com.sun.net.httpserver HttpHandler HttpServer] '[java.io File] '[java.net InetSocketAddress])

(defn answer [value]
  (cond (nil? value) "none"
        (string? value) (str "text " (cheshire/generate-string value))
        (number? value) (str "number " value)
        :else (str "other " (cheshire/generate-string (if (:tempfile value) {:file (:filename value)} value)))))

;; What stands at a path of a document. No document but an object has any.
(defn at [document names]
  (reduce (fn [value asked] (when (map? value) (get value asked))) document names))

(defn form [request]
  (:params (params-request (multipart-params-request request))))

(defn value-of [way request asked]
  (case way
    "params" (get (form request) asked)
    "nested" (at (:params (nested-params-request {:params (form request)})) (re-seq #"[^\[\]]+" asked))
    "cheshire" (at (cheshire/parse-string (slurp (:body request) :encoding "UTF-8"))
                   (if (= asked "user.email") ["user" "email"] [asked]))))

(defn request-of [exchange]
  {:request-method :post
   :uri (.getPath (.getRequestURI exchange))
   :query-string (.getRawQuery (.getRequestURI exchange))
   :headers (into {} (for [[k values] (.getRequestHeaders exchange)] [(string/lower-case k) (string/join "," values)]))
   :body (.getRequestBody exchange)})

(defn serve [exchange]
  (let [request (request-of exchange)
        asked (get-in request [:headers "x-asked"])
        [status text] (try [200 (answer (value-of (subs (:uri request) 1) request asked))]
                           (catch Throwable error [400 (str "refused: " error)]))
        bytes (.getBytes ^String text "UTF-8")]
    (.sendResponseHeaders exchange status (count bytes))
    (with-open [stream (.getResponseBody exchange)] (.write stream bytes))))

;; Debian's jars are links to those with a version.
(defn version-of [jar]
  (second (re-find #"-([0-9.]+)\.jar$" (.getCanonicalPath (File. (str "/usr/share/java/" jar ".jar"))))))

(println (str "Ring " (version-of "ring-core") ", Cheshire " (version-of "cheshire") ", Clojure " (clojure-version)))
(flush)
(let [port (Integer/parseInt (first *command-line-args*))
      server (HttpServer/create (InetSocketAddress. "127.0.0.1" port) 0)]
  (.createContext server "/" (reify HttpHandler (handle [_ exchange] (serve exchange))))
  (.start server)
  @(promise))
