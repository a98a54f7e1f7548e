import assert from 'node:assert/strict'
import test from 'node:test'
import type { Field, Json } from '../src/api/shapes.ts'
import { changesOf, isUnchanged } from '../src/screens/records/import-changes.ts'
import { fieldsFor, meant, type Notation, orderOf, ownOrder, signOf } from '../src/screens/records/import-values.ts'

const CHOICES = [
  { value: 'de', text: 'Germany' },
  { value: 'fr', text: 'France' },
]
const BERLIN: Notation = { sign: '.', order: 'dmy', zone: 'Europe/Berlin', isGuarded: true }

const of = (type: string, given: Json, notation: Partial<Notation> = {}, field: Partial<Field> = {}) =>
  meant({ alias: 'a', type, required: false, ...field }, given, { ...BERLIN, ...notation })

test('a text in a table means a value of the field', () => {
  const bounds = { validators: [{ name: 'max_value' as const, value: 50 }] }
  assert.deepEqual(of('integer', ' 1.2 '), { problem: 'integer', of: '1.2' })
  assert.deepEqual(of('integer', '12'), { value: 12 })
  assert.deepEqual(of('integer', '51', {}, bounds), { problem: 'bounds', of: '51' })
  assert.deepEqual(of('decimal', '1.234,50', { sign: ',' }), { value: '1234.50' })
  assert.deepEqual(of('decimal', '1,234.50'), { value: '1234.50' })
  assert.deepEqual(of('string', ''), { value: null })
  assert.deepEqual(of('relation', 'ACME', {}, { autocomplete: '/x' }), { name: 'ACME' })
  assert.deepEqual(of('relation', '7', {}, { autocomplete: '/x' }), { value: 7 })
})

test('a text keeps its characters, but for the apostrophe that an export of CSV added', () => {
  const texts: [string, string][] = [
    ["'=1+1", '=1+1'],
    ["''=1+1", "'=1+1"],
    ["'''@a", "''@a"],
    ["'plain", "'plain"],
    ["O'Brien", "O'Brien"],
  ]
  for (const [cell, value] of texts) {
    assert.deepEqual(of('string', cell), { value })
    assert.deepEqual(of('string', cell, { isGuarded: false }), { value: cell })
  }
})

test('whole numbers beyond 2^53 stay exact', () => {
  assert.deepEqual(of('integer', '9007199254740993'), { value: 9007199254740993n })
  assert.deepEqual(of('integer', '-9,007,199,254,740,993'), { value: -9007199254740993n })
  assert.deepEqual(of('integer', 9007199254740993n), { value: 9007199254740993n })
  assert.deepEqual(of('decimal', '12345678901234567.89'), { value: '12345678901234567.89' })
})

test('a sign between groups stands before three digits each time; anywhere else a number is none', () => {
  const numbers: ['.' | ',', string, string][] = [
    ['.', '1,234,567.5', '1234567.5'],
    ['.', '-1 234.5', '-1234.5'],
    ['.', '1\u202F234', '1234'],
    ['.', "1'234.5", '1234.5'],
    ['.', '0.125', '0.125'],
    ['.', '.5', '.5'],
    ['.', '007', '007'],
    [',', '0,125', '0.125'],
    [',', '-1.234,5', '-1234.5'],
    [',', '1234567,5', '1234567.5'],
  ]
  for (const [sign, text, value] of numbers) assert.deepEqual(of('decimal', text, { sign }), { value }, text)
  const wrong: ['.' | ',', string][] = [
    ['.', '0,125'],
    ['.', '1,5'],
    ['.', '12,34.5'],
    ['.', '1,234 567'],
    ['.', '1234,567'],
    ['.', '1.234.567'],
    ['.', '1.234,5'],
    ['.', '5.'],
    ['.', '-'],
    [',', '1,234,567'],
    [',', '1.5'],
  ]
  for (const [sign, text] of wrong)
    assert.deepEqual(of('decimal', text, { sign }), { problem: 'decimal', of: text }, text)
  assert.deepEqual(of('integer', '1,5'), { problem: 'integer', of: '1,5' })
  assert.deepEqual(of('integer', '1,500'), { value: 1500 })
  assert.deepEqual(of('integer', '1.500', { sign: ',' }), { value: 1500 })
  assert.deepEqual(of('integer', '1.500'), { problem: 'integer', of: '1.500' })
})

test('currencies, brackets and signs are those of spreadsheets', () => {
  const numbers: ['.' | ',', string, string][] = [
    [',', '€ 1.234,56', '1234.56'],
    [',', '1.234,56 €', '1234.56'],
    [',', '1.234,56\u00A0EUR', '1234.56'],
    ['.', '$1,234.56', '1234.56'],
    ['.', '-$5', '-5'],
    ['.', '$-5', '-5'],
    ['.', '(1,234.56)', '-1234.56'],
    ['.', '($1,234.56)', '-1234.56'],
    ['.', '+5', '5'],
    ['.', '\u22125', '-5'],
    ['.', '- 5', '-5'],
    ['.', 'CHF 5.00', '5.00'],
  ]
  for (const [sign, text, value] of numbers) assert.deepEqual(of('decimal', text, { sign }), { value }, text)
  for (const text of ['€', '$€5', '5 EUR EUR', '(5', '5)', '(-5)', '--5', '+-5', '5 apples', '+', '()'])
    assert.deepEqual(of('decimal', text), { problem: 'decimal', of: text }, text)
  assert.equal(signOf(['€ 1.234,50', '12,5 €', '(7,25)']), ',')
  assert.equal(signOf(['1.234,50', '12', '']), ',')
  assert.equal(signOf(['0,125', '7,5']), ',')
  assert.equal(signOf(['1.234.567']), ',')
  assert.equal(signOf(['1,234', '0.125']), '.')
})

test('yes and no are words of several languages, in both normal forms', () => {
  for (const text of ['Ja', 'TRUE', 'WAHR', 'VRAI', 'VERDADERO', 'Sí', 'Si\u0301', 'x', '1'])
    assert.deepEqual(of('boolean', text), { value: true }, text)
  for (const text of ['nein', 'FALSE', 'FALSCH', 'FAUX', 'FALSO', '0'])
    assert.deepEqual(of('boolean', text), { value: false }, text)
  assert.deepEqual(of('boolean', 'maybe'), { problem: 'boolean', of: 'maybe' })
})

test('an option is named by its value before its label, in both normal forms', () => {
  const values = [
    { value: 'a', text: 'b' },
    { value: 'b', text: 'a' },
    { value: 'B', text: 'Müller' },
    { value: 'c', text: 'Twice' },
    { value: 'd', text: 'Twice' },
  ]
  const named: [string, string][] = [
    ['a', 'a'],
    ['b', 'b'],
    ['B', 'B'],
    ['A', 'a'],
    ['müller', 'B'],
    ['Mu\u0308ller', 'B'],
  ]
  for (const [text, value] of named) assert.deepEqual(of('enum', text, {}, { values }), { value }, text)
  assert.deepEqual(of('enum', 'Twice', {}, { values }), { problem: 'many', of: 'Twice' })
  assert.deepEqual(of('status', 'none', {}, { values }), { problem: 'choice', of: 'none' })
  assert.deepEqual(of('enum', 'germany', {}, { values: CHOICES }), { value: 'de' })
})

test('options of a set stand with a sign between, which they may have themselves', () => {
  assert.deepEqual(of('set', 'de; France', {}, { values: CHOICES }), { value: ['de', 'fr'] })
  assert.deepEqual(of('set', 'de, xx', {}, { values: CHOICES }), { problem: 'choice', of: 'xx' })
  const values = ['x, y', 'x', 'z;w', 'z'].map((value) => ({ value, text: value.toUpperCase() }))
  for (const all of [['x, y', 'x'], ['z;w'], ['z;w', 'z'], ['x'], ['x', 'z;w', 'x, y']])
    assert.deepEqual(of('set', all.join(', '), {}, { values }), { value: all })
})

test('a day is written in either order, which is chosen for all of them', () => {
  const days: [Notation['order'], string, string][] = [
    ['dmy', '31/12/2026', '2026-12-31'],
    ['mdy', '12/31/2026', '2026-12-31'],
    ['dmy', '1/2/2026', '2026-02-01'],
    ['mdy', '1/2/2026', '2026-01-02'],
    ['mdy', '1-2-26', '2026-01-02'],
    ['dmy', '31-Dec-26', '2026-12-31'],
    ['dmy', '31.1.2026', '2026-01-31'],
    // Points follow days, and a year of four digits comes first, with any choice.
    ['mdy', '31.12.26', '2026-12-31'],
    ['mdy', '2026/12/31', '2026-12-31'],
    ['dmy', '2026-12-31', '2026-12-31'],
    ['dmy', '2026-12-31 00:00:00', '2026-12-31'],
    ['mdy', '12/31/2026 12:00:00 AM', '2026-12-31'],
    ['dmy', '31/12/49', '2049-12-31'],
    ['dmy', '31/12/50', '1950-12-31'],
  ]
  for (const [order, text, value] of days) assert.deepEqual(of('date', text, { order }), { value }, text)
  for (const text of ['2026-02-30', '12/31/2026', '31/12/026', '1/2/3', '2026-12-31 10:30', 'soon', '7'])
    assert.deepEqual(of('date', text), { problem: 'date', of: text }, text)
})

test('the order of day and month is the one in which more of the days exist', () => {
  assert.equal(orderOf(['1/2/2026', '31/12/2026'], 'mdy'), 'dmy')
  assert.equal(orderOf(['1/2/2026', '12/31/26 10:30'], 'dmy'), 'mdy')
  assert.equal(orderOf(['1/2/2026', '2026-31-12', '31.12.2026', '45/45/2026'], 'mdy'), 'mdy')
  assert.deepEqual([ownOrder('en-US'), ownOrder('en-GB'), ownOrder('de'), ownOrder('ja')], ['mdy', 'dmy', 'dmy', 'dmy'])
})

test('a date and time without an offset is in the time zone of the importer', () => {
  const moments: [string, string][] = [
    ['2026-01-31', '2026-01-30T23:00:00.000Z'],
    ['1.7.2026', '2026-06-30T22:00:00.000Z'],
    ['2026-07-01 9:30', '2026-07-01T07:30:00.000Z'],
    ['2026-07-01T09:30:15.5', '2026-07-01T07:30:15.500Z'],
    ['2026-07-01T09:30:15.123456', '2026-07-01T07:30:15.123456Z'],
    ['1/7/2026, 10:30 PM', '2026-07-01T20:30:00.000Z'],
    ['1/7/2026 12:05 am', '2026-06-30T22:05:00.000Z'],
    ['2026-07-01T09:30:00Z', '2026-07-01T09:30:00Z'],
    ['2026-07-01T09:30:00+05:30', '2026-07-01T09:30:00+05:30'],
    ['1/7/2026 9:30 +0530', '2026-07-01T09:30:00+05:30'],
    // As exports have it: six figures of a second.
    ['2026-12-31T10:30:00.000000Z', '2026-12-31T10:30:00.000000Z'],
    ['2026-12-31T10:30:00.123456Z', '2026-12-31T10:30:00.123456Z'],
  ]
  for (const [text, value] of moments) assert.deepEqual(of('datetime', text), { value }, text)
  assert.deepEqual(of('datetime', '2026-07-01', { zone: 'America/New_York' }), { value: '2026-07-01T04:00:00.000Z' })
  for (const text of ['soon', '2026-02-30', '2026-07-01 25:00', '2026-07-01Z', '7', '2026-07-01 13:00 pm'])
    assert.deepEqual(of('datetime', text), { problem: 'datetime', of: text }, text)
  // A text that is far too long is not parsed.
  const long = `1${' '.repeat(1_000_000)}x`
  for (const type of ['integer', 'decimal', 'boolean', 'date', 'datetime'])
    assert.deepEqual(of(type, long), { problem: type, of: `1${' '.repeat(99)}…` })
})

test('a column is meant for the field of its alias, else of its label', () => {
  const fields = [
    { alias: 'id', type: 'integer', required: false, label: 'ID' },
    { alias: 'owner', type: 'user', required: false, label: 'Owner' },
    { alias: 'made', type: 'date', required: false, label: 'Created at' },
    { alias: 'order_no', type: 'string', required: false, label: 'Größe' },
  ]
  assert.deepEqual(fieldsFor(['id', 'owner', 'created_at', 'made', 'gro\u0308ße', 'Other', ''], fields), [
    'id',
    'owner',
    // The columns of exports beside the fields are not fields, whatever their names.
    '',
    'made',
    'order_no',
    '',
    '',
  ])
  assert.deepEqual(fieldsFor(['Order no', 'order_no', 'Created at'], fields), ['', 'order_no', 'made'])
})

test('an equal value in another notation is not a change', () => {
  const same: [string, Json, Json][] = [
    ['string', 'a', 'a '],
    ['string', null, null],
    ['text', 'a\nb', 'a\nb'],
    ['integer', 9007199254740993n, 9007199254740993n],
    ['decimal', '1234.50', '1234.5'],
    ['decimal', '-0.10', '-.1'],
    ['decimal', '0.00', '0'],
    ['decimal', '5.00', 5],
    ['boolean', false, false],
    ['date', '2026-12-31', '2026-12-31'],
    ['datetime', '2026-12-31T10:30:00.123456Z', '2026-12-31T11:30:00.123456+01:00'],
    ['datetime', '2026-12-31T10:30:00.000000Z', '2026-12-31T10:30:00Z'],
    ['set', ['a', 'b'], ['b', 'a']],
    ['set', [], null],
    ['set', [], []],
    ['user', 7, 7],
    ['relation', 8, 8],
  ]
  const other: [string, Json, Json][] = [
    ['string', 'a', 'A'],
    ['string', "'=x", '=x'],
    ['integer', 9007199254740993n, 9007199254740992],
    ['decimal', '1234.50', '1234.51'],
    ['decimal', '10', '1'],
    ['decimal', '-1', '1'],
    ['boolean', false, null],
    ['boolean', null, false],
    ['datetime', '2026-12-31T10:30:00.123456Z', '2026-12-31T10:30:00.123457Z'],
    ['set', ['a', 'b'], ['a']],
    ['set', null, []],
    ['set', ['a'], null],
    ['user', 7, 8],
  ]
  const is = (type: string, stored: Json, value: Json) =>
    isUnchanged({ alias: 'a', type, required: false }, stored, value)
  for (const [type, stored, value] of same) assert.ok(is(type, stored, value), `${type} ${stored} ${value}`)
  for (const [type, stored, value] of other) assert.ok(!is(type, stored, value), `${type} ${stored} ${value}`)
})

test('of a change the fields alone are sent that differ, and the owner', () => {
  const fields = [
    { alias: 'a', type: 'string', required: false },
    { alias: 'b', type: 'decimal', required: false },
  ]
  const stored = { id: 1, owner: { id: 5, username: 'x' }, fields: { a: 'A', b: '1.00' } }
  assert.equal(changesOf({ id: 1, owner: 5, fields: { a: 'A', b: '1' } }, stored, fields), undefined)
  assert.deepEqual(changesOf({ id: 1, owner: 5, fields: { a: 'B', b: '1' } }, stored, fields), {
    id: 1,
    fields: { a: 'B' },
  })
  assert.deepEqual(changesOf({ id: 1, owner: 6, fields: { a: 'A' } }, stored, fields), { id: 1, owner: 6, fields: {} })
})
