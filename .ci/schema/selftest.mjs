// Messages that check.mjs must accept or report. Each row has a revision, a request, the line of the
// server, and a part of the expected violation, or '' if the line is valid.

const claim = '"_meta":{"progressToken":7,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}';
const hello = (revision) => [
  `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"${revision}","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
  `{"jsonrpc":"2.0","id":"init","result":{"protocolVersion":"${revision}","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`
];
const ask = (method, params = '{}') => `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`;
const result = (members, id = 1) => `{"jsonrpc":"2.0","id":${id},"result":${members}}`;
const error = (code, id = 1, more = '') => `{"jsonrpc":"2.0","id":${id},"error":{"code":${code},"message":"m"${more}}}`;
const note = (method, params) => `{"jsonrpc":"2.0","method":"notifications/${method}","params":${params}}`;
const caching = '"ttlMs":0,"cacheScope":"private"';
const A = '2024-11-05', B = '2025-03-26', C = '2025-06-18', D = '2025-11-25', M = '2026-07-28';
const call = ask('tools/call', '{"name":"t"}');
const modern = ask('tools/call', `{"name":"t",${claim}}`);
const list = ask('tools/list', `{${claim}}`);
const listen = ask('subscriptions/listen', `{"notifications":{},${claim}}`);

const ROWS = [
  [A, ask('ping'), result('{}'), ''],
  [A, ask('ping'), result('{"resultType":"complete"}'), 'not {}'],
  [A, ask('ping'), `{"jsonrpc":"2.0","id":1,"result":{},"extra":1}`, 'members of a message'],
  [A, ask('ping'), `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}`, 'members of a message'],
  [A, ask('ping'), `{"id":1,"result":{}}`, 'members of a message'],
  [A, ask('ping'), result('{}', '"1"'), 'no request'],
  [A, ask('ping'), result('{}', '1.0'), 'no request'],
  [A, ask('ping'), '{"jsonrpc":"2.0","id":1,"result":{}', 'not JSON'],
  [A, ask('ping'), '{"jsonrpc":"2.0","id":1,"id":1,"result":{}}', 'duplicate'],
  [A, ask('ping'), `[${result('{}')}]`, 'a batch'],
  [B, ask('ping'), `[${result('{}')},${error(-32600, 'null')}]`, ''],
  [B, ask('ping'), `[]`, 'empty batch'],
  [A, ask('server/discover'), result('{}'), 'does not have'],
  [A, call, result('{"content":[{"type":"text","text":"hi"}]}'), ''],
  [A, call, result('{"content":[{"type":"text"}]}'), "'text'"],
  [A, call, result('{"content":null}'), 'is null'],
  [A, call, result('{"content":[{"type":"audio","data":"","mimeType":"audio/wav"}]}'), 'content/0'],
  [B, call, result('{"content":[{"type":"audio","data":"","mimeType":"audio/wav"}]}'), ''],
  [B, call, result('{"content":[],"structuredContent":{}}'), ''],
  [C, call, result('{"content":[],"structuredContent":[]}'), 'structuredContent'],
  [D, call, result('{"content":[{"type":"image","data":"?","mimeType":"image/png"}]}'), 'format "byte"'],
  [D, ask('resources/list'), result('{"resources":[{"name":"r","uri":"no uri"}]}'), 'format "uri"'],
  [D, ask('resources/list'), result('{"resources":[],"nextCursor":null}'), 'is null'],
  [D, ask('tools/list'), result('{"tools":[{"name":"t","inputSchema":{"type":"array"}}]}'), 'inputSchema'],
  [C, ask('tools/list'), result('{"tools":[{"name":"t","icons":[],"inputSchema":{"type":"object"}}]}'), ''],
  [C, ask('tools/list'), result('{"tools":[{"name":"t","icon":[],"inputSchema":{"type":"object"}}]}'), 'property name must be valid'],
  [A, call, error(-32602), ''],
  [A, call, error('"-32602"'), 'integer'],
  [A, call, error(-32602, 'null'), 'could not be read'],
  [A, 'rubbish', error(-32700, 'null'), ''],
  [A, 'rubbish', error(-32700, 'null', ',"why":1'), 'property name must be valid'],
  [D, call, error(-32021, 1, ',"data":{"requiredCapabilities":{}}'), 'has no error'],
  [M, modern, result('{"resultType":"task","taskId":"t","status":"working","ttlMs":null}'), ''],
  [M, modern, result('{"resultType":"task","status":"working"}'), 'a task without'],
  [M, list, result('{"resultType":"task","taskId":"t","status":"working"}'), 'resultType of tools/list'],
  [M, modern, error(-32021), "'data'"],
  [M, modern, error(-32002), 'has no error'],
  [D, call, note('progress', '{"progressToken":7,"progress":1}'), 'belongs to no request'],
  [M, modern, note('progress', '{"progressToken":7,"progress":1}'), ''],
  [M, modern, note('progress', '{"progressToken":"7","progress":1}'), 'belongs to no request'],
  [M, modern, note('progress', '{"progressToken":7,"progress":"1"}'), 'number'],
  [M, modern, note('message', '{"level":"info","data":1}'), 'belongs to no request'],
  [D, call, note('message', '{"level":"fine","data":1}'), 'level'],
  [D, call, note('tools/list_changed', '{}'), ''],
  [M, listen, note('tools/list_changed', '{}'), 'belongs to no'],
  [M, listen, note('tools/list_changed', '{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}'), ''],
  [M, listen, note('tools/list_changed', '{"_meta":{"io.modelcontextprotocol/subscriptionId":"1"}}'), 'belongs to no'],
  [M, listen, result('{"resultType":"complete","_meta":{}}'), 'subscriptionId'],
  [M, list, result(`{"resultType":"complete","tools":[],${caching}}`), ''],
  [M, list, result(`{"tools":[],${caching}}`), 'resultType'],
  [M, list, result(`{"resultType":"complete","tools":[]}`), 'ttlMs'],
  [M, list, result(`{"resultType":"input_required","requestState":"s"}`), 'resultType of tools/list'],
  [M, modern, result('{"resultType":"input_required","requestState":"s","inputRequests":{"k":{"method":"roots/list","params":{}}}}'), ''],
  [M, modern, result('{"resultType":"input_required","inputRequests":{"k":{"method":"ping"}}}'), 'inputRequests/k'],
  [M, modern, result('{"resultType":"input_required"}'), 'asks nothing'],
  [M, modern, '{"jsonrpc":"2.0","id":1,"method":"roots/list"}', 'without a session'],
  [D, call, '{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}', ''],
  [C, call, '{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":[]}}', 'maxTokens'],
  [B, call, '{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}', 'has no elicitation/create'],
  [C, call, '{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{}}}}', '']
];

export function selfTest(Checker) {
  let failed = 0;
  for (const [revision, request, response, violation] of ROWS) {
    const c = new Checker();
    if (revision !== M) {
      c.feed('s', 'in', hello(revision)[0]);
      c.feed('s', 'out', hello(revision)[1]);
    }
    c.feed('s', 'in', request);
    c.feed('s', 'out', response);
    const got = c.violations.flatMap((v) => v.wrong).join('; ');
    if (violation ? !got.includes(violation) : got) {
      failed++;
      console.error(`FAIL ${revision} ${response}\n  want: ${violation || 'no violation'}\n  got:  ${got || 'no violation'}`);
    }
  }
  console.log(`self-test: ${ROWS.length - failed} of ${ROWS.length} rows passed`);
  return failed === 0;
}
