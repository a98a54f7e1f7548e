import assert from 'node:assert/strict'
import test from 'node:test'
import { guarded, parseCsv, unguarded, writeCsv } from '../src/screens/records/csv.ts'
import { type Encoding, encodingOf, isBinary, textOf } from '../src/screens/records/encodings.ts'
import { isJson, readCsv, readJson, type Table, written } from '../src/screens/records/import-read.ts'

const cells = ({ rows }: Table) => rows.map((row) => row.cells)

test('CR LF, LF and CR end rows outside of quotes, mixed as they come', () => {
  const table = readCsv('Name,Zip\r\nA,1\nB,2\rC,3\r\n\n"D\r\nE\nF","4\r"\r\rG,5', undefined)
  assert.deepEqual(table.columns, ['Name', 'Zip'])
  assert.deepEqual(
    table.rows.map((row) => [row.place, ...row.cells]),
    [
      [2, 'A', '1'],
      [3, 'B', '2'],
      [4, 'C', '3'],
      [6, 'D\r\nE\nF', '4\r'],
      [11, 'G', '5'],
    ],
  )
})

test('a row with more cells than columns is refused with its line; empty cells at its end do not count', () => {
  const table = readCsv('Name,Zip,Note\nMiller, Ltd,123,n\nA,1,x,, \nB\n', undefined)
  assert.deepEqual(table.rows, [
    { place: 2, cells: ['Miller', ' Ltd', '123', 'n'], flaw: { flaw: 'cells', cells: 4, columns: 3 } },
    { place: 3, cells: ['A', '1', 'x'] },
    // A missing cell does not change its field.
    { place: 4, cells: ['B'] },
  ])
})

test('a quotation mark that never closes breaks the file, with its line', () => {
  const flawOf = (text: string) => readCsv(text, undefined).flaw
  assert.deepEqual(flawOf('Name,Note\nA,"abc\nB,x\nC,y\nD,z\n'), { flaw: 'quote', line: 2 })
  assert.deepEqual(flawOf('Name,Note\n"a\nb",c\nB,x\nC,"y\n'), { flaw: 'quote', line: 5 })
  // With an undoubled quotation mark in a cell, the swallowed rows cannot be known.
  assert.deepEqual(flawOf('Name,Note\nA,"5" wide\nB,x\nC,"y"\n'), { flaw: 'quote', line: 2 })
  assert.deepEqual(flawOf('"Name,Note\nA,1\n'), { flaw: 'quote', line: 1 })
  const { rows } = readCsv('Name,Note\nA,"say "hi" now"\nB,"x" \nC,5" wide\n', undefined)
  assert.deepEqual(rows, [
    { place: 2, cells: ['A', 'say "hi" now'], flaw: { flaw: 'quote' } },
    { place: 3, cells: ['B', 'x'] },
    { place: 4, cells: ['C', '5" wide'] },
  ])
})

test('separator and columns are guessed; a first line may name the separator', () => {
  const table = readCsv('\uFEFFNumber;Total\n1;"2;5"\n\n3', undefined)
  assert.deepEqual([table.separator, table.columns, cells(table)], [';', ['Number', 'Total'], [['1', '2;5'], ['3']]])
  for (const line of ['sep=;', 'SEP=;', '"sep=;"']) {
    const { separator, columns, rows } = readCsv(`\uFEFF${line}\r\nName;Zip\r\nA;1\r\n`, undefined)
    assert.deepEqual([separator, columns, rows], [';', ['Name', 'Zip'], [{ place: 3, cells: ['A', '1'] }]])
  }
  for (const sign of '~^]\\-'.split(''))
    assert.deepEqual(cells(readCsv(`sep=${sign}\nName${sign}Zip\nA${sign}1`, undefined)), [['A', '1']], sign)
  assert.deepEqual(readCsv('sep=;\nName|Zip\nA|1', '|').columns, ['Name', 'Zip'])
  assert.deepEqual(readCsv('Name,,Zip', undefined).columns, ['Name', '2', 'Zip'])
  assert.deepEqual(readCsv(' \r\n', undefined).flaw, { flaw: 'empty' })
})

test('the address of a state is read as the same state', () => {
  const rows = [
    ['a,b', 'c"d', ' e '],
    ['f\r\ng', '', 'h\ni'],
    ["'=x", '\tz', 'k;l'],
  ]
  for (const separator of [',', ';', '\t', '|'])
    assert.deepEqual(
      parseCsv(writeCsv(rows, separator), separator).rows.map((row) => row.cells),
      rows,
    )
})

test('an export guards formulas by an apostrophe, and the import removes it', () => {
  const texts: [string, string][] = [
    ['=x', "'=x"],
    ["'=x", "''=x"],
    ["''+1", "'''+1"],
    ['@a', "'@a"],
    ['\tb', "'\tb"],
    ['plain', 'plain'],
    ["'plain", "'plain"],
    ["'", "'"],
    ["O'=x", "O'=x"],
  ]
  for (const [text, cell] of texts) assert.deepEqual([guarded(text), unguarded(cell)], [cell, text])
})

test('JSON is an object a line, a list of objects, or one object over many lines', () => {
  const lines = readJson('{"id":1,"fields":{"a":2}}\r\nno\n\n{"a":3}\n7\n')
  assert.deepEqual([lines.format, lines.columns], ['lines', ['id', 'a']])
  assert.deepEqual(lines.rows, [
    { place: 1, cells: [1, 2] },
    { place: 2, cells: ['no'], flaw: { flaw: 'object' } },
    // A missing member does not change its field.
    { place: 4, cells: [undefined, 3] },
    { place: 5, cells: ['7'], flaw: { flaw: 'object' } },
  ])
  const list = readJson('[{"name":"A"},\n 5,\n {"name":"B"}]')
  assert.deepEqual([list.format, list.columns], ['json', ['name']])
  assert.deepEqual(list.rows, [
    { place: 1, cells: ['A'] },
    { place: 2, cells: ['5'], flaw: { flaw: 'object' } },
    { place: 3, cells: ['B'] },
  ])
  assert.deepEqual(cells(readJson('\uFEFF{\n  "name": "A",\n  "zip": null\n}\n')), [['A', null]])
  assert.deepEqual(cells(readJson('{"name":"A"}')), [['A']])
  assert.deepEqual(readJson('[{"name":"A"}').flaw, { flaw: 'json' })
  assert.deepEqual(readJson('').flaw, { flaw: 'empty' })
  const many = Array.from({ length: 1001 }, (_, n) => `{"c${n}":1}`).join('\n')
  assert.deepEqual(readJson(many).flaw, { flaw: 'columns' })
  const names = [isJson('[{}]', 'a'), isJson('\uFEFF{}', 'a'), isJson('{a}', 'a.csv'), isJson('a', 'a.json')]
  assert.deepEqual(names, [true, true, false, true])
})

test('numbers of JSON do not pass through floating point', () => {
  const { rows } = readJson('{"whole":9007199254740993,"total":12345678901234567.89,"small":1.5}')
  assert.deepEqual(rows[0]?.cells, [9007199254740993n, '12345678901234567.89', 1.5])
})

test('refused rows are a file again, in the format that it had', async () => {
  const refused = (table: Table) =>
    written(
      table,
      table.rows.map((row) => ({ row, error: 'Wrong.' })),
      'problem',
    ).text()
  const csv = readCsv('Name;Zip\nA;1;2\n"B;C";=3\n', undefined)
  assert.equal(await refused(csv), 'Name;Zip;problem\r\nA;1;Wrong.;2\r\n"B;C";=3;Wrong.\r\n')
  assert.equal(
    await refused(readJson('{"a":9007199254740993}\nno\n')),
    '{"a":9007199254740993,"problem":"Wrong."}\n{"text":"no","problem":"Wrong."}\n',
  )
})

/** The bytes of texts in encodings that nothing here writes. */
const bytes = (hex: string) => Uint8Array.from(hex.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16))

test('the encoding is guessed by its mark, its validity and its letters', () => {
  const files: [Encoding, string, string][] = [
    ['utf-8', '5a6fc3ab', 'Zoë'],
    ['utf-16le', 'fffe5a006f00eb00', 'Zoë'],
    ['utf-16be', 'feff005a006f00eb', 'Zoë'],
    ['utf-16le', '41002c0042000a003100', 'A,B\n1'],
    ['utf-16be', '0041002c0042000a0031', 'A,B\n1'],
    ['windows-1252', '5a6feb204772f6dfe5', 'Zoë Größå'],
    ['windows-1252', '41e9', 'Aé'],
    ['windows-1252', '350d0a80', '5\r\n€'],
    ['macintosh', '5a6f912047729aa765', 'Zoë Größe'],
    ['shift_jis', '82b182f182c982bf82cd938c8b9e', 'こんにちは東京'],
    ['gb18030', 'd6d0b9fab9abcbbeb1b1bea9', '中国公司北京'],
    ['big5', 'a578a55fa4a4b0ea', '台北中國'],
    ['euc-kr', 'bcadbfef20c7d1b1b9beee', '서울 한국어'],
  ]
  for (const [encoding, hex, text] of files) {
    const content = bytes(hex)
    assert.deepEqual([encodingOf(content), textOf(content, encoding)], [encoding, text])
  }
})

test('a file without text is none to import', () => {
  for (const hex of ['504b0304140006', '255044462d312e37', '89504e470d0a1a0a', 'd0cf11e0a1b11ae1', '000102030405'])
    assert.equal(isBinary(bytes(hex)), true, hex)
  for (const hex of ['fffe5a006f00eb00', '41002c0042000a003100', '5a6feb0d0a1a', '82b182f182c9'])
    assert.equal(isBinary(bytes(hex)), false, hex)
})
