import assert from 'node:assert/strict'
import test from 'node:test'
import type { Json } from '../src/api/shapes.ts'
import { changesOf } from '../src/screens/records/event-changes.ts'
import { encodingOf, readCsv, readLines } from '../src/screens/records/import-read.ts'
import { fieldFor, meant, signOf } from '../src/screens/records/import-values.ts'

const CHOICES = [
  { value: 'de', text: 'Germany' },
  { value: 'fr', text: 'France' },
]

test('what was there before comes from older events', () => {
  const event = (value: number | null) => ({
    event_data: [{ field_id: 4, field_name: 'Items', field_type: 'integer', field_value: value }],
  })
  const added = { event_data: [{ id: 2, type: 'user', name: 'Anna', permission_set: { id: 1, name: 'Workers' } }] }
  const changes = changesOf([event(null), added, event(7), event(5)])
  assert.deepEqual(
    changes.map(([first]) => [first?.old, first?.now]),
    [
      [7, null],
      [undefined, 'Anna'],
      [5, 7],
      [undefined, 5],
    ],
  )
  assert.equal(changes[1]?.[0]?.name, 'Workers')
})

test('a value of which no known event tells is further back, unless the record was made since', () => {
  const event = (event_type: string, ...fields: [number, number][]) => ({
    event_type,
    event_data: fields.map(([field_id, field_value]) => ({
      field_id,
      field_name: 'x',
      field_type: 'integer',
      field_value,
    })),
  })
  const change = event('field_values_changed', [4, 7])
  const further = (events: object[], isWhole: boolean) =>
    changesOf(events as never, isWhole).map((changes) => changes.map(({ old, isFurther }) => [old, isFurther]))
  assert.deepEqual(further([change], false), [[[undefined, true]]])
  assert.deepEqual(further([change], true), [[[undefined, false]]])
  assert.deepEqual(further([change, event('record_created', [5, 1])], false)[0], [[undefined, false]])
  assert.deepEqual(further([change, event('record_created', [4, 1])], false)[0], [[1, false]])
})

test('a text in a table means a value of the field', () => {
  const of = (type: string, given: Json, sign: '.' | ',' = '.') =>
    meant(
      { alias: 'a', type, required: false, values: CHOICES, validators: [{ name: 'max_value', value: 50 }] },
      given,
      sign,
      'Europe/Berlin',
    )
  assert.deepEqual(of('integer', ' 1.2 '), { problem: 'integer', of: '1.2' })
  assert.deepEqual(of('integer', '12'), { value: 12 })
  assert.deepEqual(of('integer', '51'), { problem: 'bounds', of: '51' })
  assert.deepEqual(of('decimal', '1.234,50', ','), { value: '1234.50' })
  assert.deepEqual(of('decimal', '1,234.50'), { value: '1234.50' })
  assert.deepEqual(of('boolean', 'Ja'), { value: true })
  assert.deepEqual(of('enum', 'germany'), { value: 'de' })
  assert.deepEqual(of('set', 'de; France'), { value: ['de', 'fr'] })
  assert.deepEqual(of('set', 'de, xx'), { problem: 'choice', of: 'xx' })
  assert.deepEqual(of('date', '31.1.2026'), { value: '2026-01-31' })
  assert.deepEqual(of('date', '2026-02-30'), { problem: 'date', of: '2026-02-30' })
  assert.deepEqual(of('string', ''), { value: null })
  assert.deepEqual(of('string', "'=1+1"), { value: '=1+1' })
  assert.deepEqual(meant({ alias: 'a', type: 'relation', required: false, autocomplete: '/x' }, 'ACME', '.', 'UTC'), {
    name: 'ACME',
  })
  assert.deepEqual(meant({ alias: 'a', type: 'relation', required: false, autocomplete: '/x' }, '7', '.', 'UTC'), {
    value: 7,
  })
})

test('a sign between groups stands before three digits each time; anywhere else a number is none', () => {
  const of = (type: string, given: string, sign: '.' | ',') =>
    meant({ alias: 'a', type, required: false }, given, sign, 'UTC')
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
  for (const [sign, text, value] of numbers) assert.deepEqual(of('decimal', text, sign), { value }, text)
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
  for (const [sign, text] of wrong) assert.deepEqual(of('decimal', text, sign), { problem: 'decimal', of: text }, text)
  assert.deepEqual(of('integer', '1,5', '.'), { problem: 'integer', of: '1,5' })
  assert.deepEqual(of('integer', '1,500', '.'), { value: 1500 })
  assert.deepEqual(of('integer', '1.500', ','), { value: 1500 })
  assert.deepEqual(of('integer', '1.500', '.'), { problem: 'integer', of: '1.500' })
})

test('a moment without an offset is one in the zone of whoever imports it', () => {
  const of = (given: string, zone = 'Europe/Berlin') =>
    meant({ alias: 'a', type: 'datetime', required: false }, given, '.', zone)
  assert.deepEqual(of('2026-01-31'), { value: '2026-01-30T23:00:00.000Z' })
  assert.deepEqual(of('1.7.2026'), { value: '2026-06-30T22:00:00.000Z' })
  assert.deepEqual(of('2026-07-01', 'America/New_York'), { value: '2026-07-01T04:00:00.000Z' })
  assert.deepEqual(of('2026-07-01 9:30'), { value: '2026-07-01T07:30:00.000Z' })
  assert.deepEqual(of('2026-07-01T09:30:15.5'), { value: '2026-07-01T07:30:15.500Z' })
  assert.deepEqual(of('2026-07-01T09:30:00Z'), { value: '2026-07-01T09:30:00Z' })
  assert.deepEqual(of('2026-07-01T09:30:00+05:30'), { value: '2026-07-01T09:30:00+05:30' })
  for (const text of ['soon', '2026-02-30', '2026-07-01 25:00', '2026-07-01Z', '7'])
    assert.deepEqual(of(text), { problem: 'datetime', of: text })
})

test('encoding, separator, columns and the sign of numbers are guessed', () => {
  assert.equal(encodingOf(new Uint8Array([0xff, 0xfe, 0x41, 0])), 'utf-16le')
  assert.equal(encodingOf(new TextEncoder().encode('é')), 'utf-8')
  assert.equal(encodingOf(new Uint8Array([0x41, 0xe9])), 'windows-1252')
  const table = readCsv('Number;Total\n1;"2;5"\n\n3', undefined)
  assert.deepEqual(
    [table.separator, table.columns, table.rows],
    [
      ';',
      ['Number', 'Total'],
      [
        ['1', '2;5'],
        ['3', ''],
      ],
    ],
  )
  assert.equal(signOf(['1.234,50', '12', '']), ',')
  assert.equal(signOf(['0,125', '7,5']), ',')
  assert.equal(signOf(['1.234.567']), ',')
  assert.equal(signOf(['1,234', '0.125']), '.')
  const fields = [{ alias: 'order_no', type: 'string', required: false, label: 'Order number' }]
  assert.equal(fieldFor('order number', fields), 'order_no')
  assert.equal(fieldFor('Other', fields), '')
})

test('lines of an export are read with their values beside the number', () => {
  const table = readLines('{"id":1,"fields":{"a":2}}\nno\n{"a":3}\n')
  assert.deepEqual(
    [table.columns, table.rows, table.broken],
    [
      ['id', 'a'],
      [
        [1, 2],
        [null, 3],
      ],
      [2],
    ],
  )
})
