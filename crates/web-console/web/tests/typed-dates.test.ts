import assert from 'node:assert/strict'
import test from 'node:test'
import { shownDate, typedDate } from '../src/kit/typed-date.ts'

const DAY = { hasTime: false, zone: 'UTC' }
const MOMENT = { hasTime: true, zone: 'Europe/Berlin' }

// Typed texts, and the stored days.
const days: [string, string | null][] = [
  ['1/1/2026', '2026-01-01'],
  ['1.1.2026', '2026-01-01'],
  ['1-1-2026', '2026-01-01'],
  ['1,1,2026', '2026-01-01'],
  ['1 1 2026', '2026-01-01'],
  ['1. 1. 2026', '2026-01-01'],
  ['01/01/26', '2026-01-01'],
  ['31.12.99', '2099-12-31'],
  ['31122026', '2026-12-31'],
  ['311226', '2026-12-31'],
  ['20261231', '2026-12-31'],
  ['2026-03-04', '2026-03-04'],
  ['2026/3/4', '2026-03-04'],
  [' 2026-03-04 ', '2026-03-04'],
  ['2026-03-04T00:00:00.000000Z', '2026-03-04'],
  ['\u200e31/12/2026', '2026-12-31'],
  ['29/02/2028', '2028-02-29'],
  ['31 Dec 2026', '2026-12-31'],
  ['31-December-26', '2026-12-31'],
  ['Dec 31, 2026', '2026-12-31'],
  ['1/1/1900', '1900-01-01'],
  ['', null],
]

test('a day is saved as it was typed or pasted', () => {
  for (const [typed, value] of days) assert.deepEqual(typedDate(typed, DAY), { value }, typed)
})

test('an invalid day is an error, and a year before 1900 must be confirmed', () => {
  for (const typed of ['31/02/2026', '29/02/2026', '32/1/2026', '1/13/2026', '12/31/2026', '31022026', '0/1/2026'])
    assert.deepEqual(typedDate(typed, DAY), { flaw: 'none' }, typed)
  for (const typed of [
    '1',
    '1/1',
    '1/1/',
    '1/1/2',
    '1/1/202',
    '1/1/20266',
    '2026',
    '2026-01',
    'soon',
    '1 Janvier 2026',
  ])
    assert.deepEqual(typedDate(typed, DAY), { flaw: 'half' }, typed)
  // A time would be lost.
  assert.deepEqual(typedDate('2026-03-04T10:30:00Z', DAY), { flaw: 'half' })
  assert.deepEqual(typedDate('1/1/1826', DAY), { flaw: 'old', year: 1826 })
  assert.deepEqual(typedDate('1/1/0026', DAY), { flaw: 'old', year: 26 })
  assert.deepEqual(typedDate('1/1/1826', { ...DAY, oldYear: 1826 }), { value: '1826-01-01' })
  assert.deepEqual(typedDate('1/1/1827', { ...DAY, oldYear: 1826 }), { flaw: 'old', year: 1827 })
})

test('a date and time is typed in the zone of the account, or with its offset', () => {
  const moments: [string, string | null][] = [
    ['28/06/2026, 14:30', '2026-06-28T12:30:00.000Z'],
    ['28.6.26 14:30', '2026-06-28T12:30:00.000Z'],
    ['28/12/2026 14:30', '2026-12-28T13:30:00.000Z'],
    ['280620261430', '2026-06-28T12:30:00.000Z'],
    ['28/06/2026 2:30 pm', '2026-06-28T12:30:00.000Z'],
    ['28/06/2026 12 am', '2026-06-27T22:00:00.000Z'],
    ['2026-06-28T14:30:15', '2026-06-28T12:30:15.000Z'],
    ['2026-06-28T14:30:00.000000Z', '2026-06-28T14:30:00.000Z'],
    ['2026-06-28T14:30:00+05:30', '2026-06-28T09:00:00.000Z'],
    ['', null],
  ]
  for (const [typed, value] of moments) assert.deepEqual(typedDate(typed, MOMENT), { value }, typed)
  for (const typed of ['28/06/2026', '28/06/2026, 14', '14:30'])
    assert.deepEqual(typedDate(typed, MOMENT), { flaw: 'half' }, typed)
  for (const typed of ['31/02/2026, 14:30', '28/06/2026, 25:00', '28/06/2026 13:00 pm'])
    assert.deepEqual(typedDate(typed, MOMENT), { flaw: 'none' }, typed)
})

test('the text of a field means its value', () => {
  for (const value of ['2026-12-31', '0026-02-11', '1900-01-01']) {
    const oldYear = Number(value.slice(0, 4))
    assert.deepEqual(typedDate(shownDate(value, DAY), { ...DAY, oldYear }), { value })
  }
  const moment = '2026-06-28T12:30:00.000Z'
  assert.equal(shownDate(moment, MOMENT), '28/06/2026, 14:30')
  assert.deepEqual(typedDate(shownDate(moment, MOMENT), MOMENT), { value: moment })
  assert.deepEqual([shownDate('', DAY), shownDate('soon', DAY), shownDate('soon', MOMENT)], ['', '', ''])
})
