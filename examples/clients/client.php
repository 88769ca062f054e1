<?php
// Asks koalagate for rows before an export, and settles the rows that it used:
//
//   KOALA_TOKEN=… php client.php http://127.0.0.1:9981 ann 600 250

// call throws if koalagate has not decided: whether the work is done then is up to you.
function call(string $address, array $args): array
{
    $body = @file_get_contents($address, false, stream_context_create(['http' => [
        'method' => 'POST',
        'header' => "Content-Type: application/x-www-form-urlencoded\r\n"
            . 'Authorization: Bearer ' . getenv('KOALA_TOKEN'), // of koala_token, if that is set
        'content' => http_build_query($args),
        'ignore_errors' => true, // returns the body of a refused call, too
        'timeout' => 1.0,
    ]]));
    if ($body === false) {
        throw new RuntimeException(error_get_last()['message']);
    }
    $reply = json_decode($body, true, 8, JSON_THROW_ON_ERROR);
    if (($reply['err_no'] ?? 0) !== 0) {
        throw new RuntimeException("$address: {$reply['err_msg']}");
    }
    return $reply;
}

function export(string $address, string $user, string $expected, string $used): string
{
    $entry = call("$address/rule/take", ['act' => 'export', 'uid' => $user, 'rows' => $expected]);
    if ($entry['Err_no'] !== 0) {
        return 'refused: ' . $entry['Err_msg'];
    }
    // The export is here. If the settlement fails, the expected rows stay counted.
    call("$address/rule/settle", ['_receipt' => $entry['Receipt'], '_hits' => $used]);
    return 'allowed';
}

try {
    if ($argc !== 5) {
        throw new InvalidArgumentException('usage: client.php ADDRESS USER EXPECTED USED');
    }
    echo export(...array_slice($argv, 1)), "\n";
} catch (Exception $e) {
    fwrite(STDERR, $e->getMessage() . "\n");
    exit(1);
}
