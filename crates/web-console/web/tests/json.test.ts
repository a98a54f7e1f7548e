import assert from 'node:assert/strict'
import test from 'node:test'
import { parseJson, writeJson } from '../src/api/json.ts'

test('whole numbers beyond 2^53 are read and written exactly', () => {
  const text = '{"a":9007199254740993,"b":[-9223372036854775808,9007199254740991,1],"c":"9007199254740993","d":1.5}'
  const value = parseJson(text)
  assert.deepEqual(value, {
    a: 9007199254740993n,
    b: [-9223372036854775808n, 9007199254740991, 1],
    c: '9007199254740993',
    d: 1.5,
  })
  assert.equal(writeJson(value), text)
  assert.equal(writeJson({ a: 9007199254740993n, b: [], c: undefined }, 2), '{\n  "a": 9007199254740993,\n  "b": []\n}')
})

test('everything else is read as ever, in the company of such a number', () => {
  const rest = {
    text: 'a "quoted" \\ text\nof 12345678901234567890, [and] {more}: é\u0007',
    none: null,
    flags: [true, false],
    numbers: [0, -0.5, 1e21, 1.25e-7, 0.1],
    empty: [{}, [], ''],
    nested: { '': { 'a:b': [[1], [2, [3]]] } },
  }
  for (const indent of [0, 2]) {
    const text = JSON.stringify({ number: 0, ...rest }, null, indent).replace(
      /(?<="number": ?)0/,
      '12345678901234567890',
    )
    assert.deepEqual(parseJson(text), { number: 12345678901234567890n, ...rest })
  }
  const polluting = parseJson('{"__proto__": {"a": 12345678901234567890}}') as object
  assert.deepEqual([Object.keys(polluting), 'a' in polluting], [['__proto__'], false])
  for (const broken of ['{"a": 12345678901234567890', '[12345678901234567890,]', '12345678901234567890 1', ''])
    assert.throws(() => parseJson(broken), SyntaxError, broken)
})

test('a reader may convert numbers of many digits otherwise', () => {
  const digits = (text: string) => text
  assert.deepEqual(parseJson('[1.5, 12345678901234567.89, 1e3]', digits), [1.5, '12345678901234567.89', 1000])
})
