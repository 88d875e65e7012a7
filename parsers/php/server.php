<?php
// Serves PHP itself and the requests of Symfony and Laravel: php server.php PORT. It prints the versions first.
//
// The first element of a path is the way to read, the header X-Asked the name that is asked for.

const LOADER = '/usr/share/php/Illuminate/autoload.php'; // Debian's, of Laravel and Symfony

function answer($value): string
{
    $flags = JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_SLASHES | JSON_PARTIAL_OUTPUT_ON_ERROR;
    return match (true) {
        $value === null => 'none',
        is_string($value) => 'text ' . json_encode($value, $flags),
        is_int($value), is_float($value) => 'number ' . var_export($value, true),
        default => 'other ' . json_encode($value, $flags),
    };
}

/** What stands at a name of a form, or at a path of a document. */
function at($from, string $asked)
{
    if ($asked !== 'user[email]' && $asked !== 'user.email') {
        return $from[$asked] ?? null;
    }
    return is_array($from['user'] ?? null) ? $from['user']['email'] ?? null : null;
}

function decoded(): array
{
    $document = json_decode(file_get_contents('php://input'), true);
    if (!is_array($document)) {
        throw new Exception('no document: ' . json_last_error_msg());
    }
    return $document;
}

function symfony(): Symfony\Component\HttpFoundation\Request
{
    return Symfony\Component\HttpFoundation\Request::createFromGlobals();
}

/** Laravel's request behind the two parts of its default stack that change values. */
function laravel(): Illuminate\Http\Request
{
    $request = Illuminate\Http\Request::capture();
    (new Illuminate\Foundation\Http\Middleware\TrimStrings)->handle($request, fn ($r) => $r);
    (new Illuminate\Foundation\Http\Middleware\ConvertEmptyStringsToNull)->handle($request, fn ($r) => $r);
    return $request;
}

function read(string $way, string $asked)
{
    $dotted = str_replace(['[', ']'], ['.', ''], $asked);
    return match ($way) {
        'POST' => at($_POST, $asked),
        'REQUEST' => at($_REQUEST, $asked),
        'json' => at(decoded(), $asked),
        'symfony-json' => at(symfony()->toArray(), $asked),
        'symfony-payload' => at(symfony()->getPayload()->all(), $asked),
        'laravel-input' => laravel()->input($dotted),
    };
}

if (PHP_SAPI === 'cli') {
    require_once LOADER;
    echo 'PHP ', PHP_VERSION, ', Symfony ', Symfony\Component\HttpKernel\Kernel::VERSION,
        ', Laravel ', Illuminate\Foundation\Application::VERSION, "\n";
    $settings = ['extension=mbstring', 'zend_extension=opcache', 'display_errors=0', 'log_errors=0'];
    $options = array_merge(...array_map(fn ($setting) => ['-d', $setting], $settings));
    pcntl_exec(PHP_BINARY, [...$options, '-q', '-S', '127.0.0.1:' . $argv[1], __FILE__]);
}
if (preg_match('~^/(symfony|laravel)-~', $_SERVER['REQUEST_URI'])) {
    require_once LOADER;
}
header('Content-Type: text/plain');
try {
    $way = substr(parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH), 1);
    echo answer(read($way, $_SERVER['HTTP_X_ASKED']));
} catch (Throwable $error) {
    http_response_code(400);
    echo 'refused: ', get_class($error), ' ', $error->getMessage();
}
