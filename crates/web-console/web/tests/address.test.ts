import assert from 'node:assert/strict'
import test from 'node:test'
import {
  lastPage,
  parseSearch,
  query,
  read,
  sortedBy,
  stringifySearch,
  usualPredicate,
  withFilters,
  write,
} from '../src/generic/address.ts'
import { absolute, beginOf, isMany, offeredBy, readBy } from '../src/generic/relative.ts'

const NAME = { alias: 'name', type: 'string', predicates: ['exact', 'icontains'], sort_ok: true }
const COLUMNS = [NAME, { alias: 'status', type: 'enum', predicates: ['exact', 'in'], sort_ok: false }]

test('an address is read and written again', () => {
  const search =
    '?name__icontains=a%26b&status__in=open%2Cdone&ordering=-name&limit=50&offset=100&.columns=name%2Cstatus'
  const state = read(search, COLUMNS)
  assert.deepEqual(
    state.filters.map(({ column, predicate, value }) => [column.alias, predicate, value]),
    [
      ['name', 'icontains', 'a&b'],
      ['status', 'in', 'open,done'],
    ],
  )
  assert.deepEqual([state.ordering, state.limit, state.offset, state.columns], ['-name', 50, 100, ['name', 'status']])
  assert.equal(write(state), search)
})

test('a filter of a field that is gone is kept apart and not sent', () => {
  const state = read('?gone=1&name=x&limit=7&offset=-3', COLUMNS)
  assert.deepEqual(state.unknown, [['gone', '1']])
  assert.equal(query(state, { list: 'mine' }), 'list=mine&name=x&limit=25')
})

test('an order by a field that is gone is kept apart, not sent, and dropped with the next change', () => {
  const state = read('?ordering=-gone&name=x', COLUMNS)
  assert.deepEqual([state.ordering, state.unknownOrdering], ['', '-gone'])
  assert.equal(query(state), 'name=x&limit=25')
  assert.equal(write(withFilters(state, [])), '')
  // A column that cannot be sorted by is no order either.
  assert.equal(read('?ordering=status', COLUMNS).unknownOrdering, 'status')
  assert.equal(read('?ordering=-name__natural', COLUMNS).ordering, '-name__natural')
  // Before the description of the list is read, filters are unknown.
  assert.equal(read('?ordering=gone', []).ordering, 'gone')
})

const CUSTOMER = {
  alias: 'customer',
  type: 'relation',
  predicates: ['exact', 'gt', 'range', 'in', 'isnull', 'exclude', 'gt__exclude', 'in__exclude', 'isnull__exclude'],
  sort_ok: false,
  autocomplete: '/api/object-classes/2/object-records/autocomplete/?text__icontains=',
}

test('a filter that finds all others stands in the address as the API takes it', () => {
  const search = '?customer__in__exclude=1%2C2&customer__exclude=3'
  const state = read(search, [CUSTOMER])
  assert.deepEqual(
    state.filters.map(({ predicate, value }) => [predicate, value]),
    [
      ['in__exclude', '1,2'],
      ['exclude', '3'],
    ],
  )
  assert.equal(query(state), 'customer__in__exclude=1%2C2&customer__exclude=3&limit=25')
  assert.equal(write(state), search)
  assert.deepEqual([isMany(CUSTOMER, 'in__exclude'), isMany(CUSTOMER, 'exclude')], [true, false])
  assert.deepEqual(read('?name__exclude=x', COLUMNS).unknown, [['name__exclude', 'x']])
})

test('ids of records are not compared', () => {
  assert.deepEqual(offeredBy(CUSTOMER), ['exact', 'in', 'isnull', 'exclude', 'in__exclude'])
  // A predicate of an existing view is still understood.
  assert.deepEqual(read('?customer__gt=1', [CUSTOMER]).unknown, [])
  const total = { alias: 'total', type: 'decimal', predicates: ['exact', 'gt', 'range'], sort_ok: true }
  assert.deepEqual(offeredBy(total), ['exact', 'gt', 'range'])
})

test('a half-made filter is not sent', () => {
  const state = withFilters(read('?offset=50', COLUMNS), [{ column: NAME, predicate: 'icontains', value: '' }])
  assert.equal(query(state), 'limit=25')
  assert.equal(write(state), '?name__icontains=')
})

test('a head sorts up, down, and not at all', () => {
  const up = sortedBy(read('?offset=50', COLUMNS), 'name')
  assert.deepEqual([up.ordering, up.offset], ['name', 0])
  assert.equal(sortedBy(up, 'name').ordering, '-name')
  assert.equal(sortedBy(sortedBy(up, 'name'), 'name').ordering, '')
})

test('a filter begins with its most common predicate', () => {
  assert.deepEqual(COLUMNS.map(usualPredicate), ['icontains', 'in'])
})

test('beyond the last page the last one is shown', () => {
  const page = (offset: number, count: number | null, results: unknown[] = []) => ({
    offset,
    results,
    filtered_count: count,
  })
  assert.equal(lastPage(page(50, 50), 50, 25), 25)
  assert.equal(lastPage(page(50, 3), 50, 25), 0)
  assert.equal(lastPage(page(500, 26), 500, 25), 25)
  assert.equal(lastPage(page(25, 0), 25, 25), 0)
  assert.equal(lastPage(page(50, null), 50, 25), 25)
  assert.equal(lastPage(page(0, 0), 0, 25), undefined)
  assert.equal(lastPage(page(25, 26, [{}]), 25, 25), undefined)
  assert.equal(lastPage(page(25, 50), 50, 25), undefined)
})

const ON = { alias: 'on', type: 'date', predicates: ['gte', 'lte', 'range'], sort_ok: true }
const AT = { ...ON, alias: 'at', type: 'datetime' }
const WHO = {
  alias: 'who',
  type: 'user',
  predicates: ['exact', 'in'],
  sort_ok: true,
  autocomplete: '/api/users/autocomplete/',
}

test('the last days stay so in the address, and are days of the reader when they are asked for', () => {
  const state = read('?on__last=7&at__last=x', [ON, AT])
  assert.deepEqual(
    state.filters.map(({ column, predicate, value }) => [column.alias, predicate, value]),
    [['on', 'last', '7']],
  )
  assert.deepEqual(state.unknown, [['at__last', 'x']])
  assert.equal(write(state), '?on__last=7&at__last=x')
  const now = Date.parse('2026-03-31T22:30:00Z')
  const reader = { id: 5, zone: 'Europe/Berlin' }
  assert.deepEqual(absolute(ON, 'last', '7', now, reader), [
    ['gte', '2026-03-25'],
    ['lte', '2026-04-01'],
  ])
  // Summer time begins in between.
  assert.deepEqual(absolute(AT, 'last', '7', now, reader), [
    ['gte', '2026-03-24T23:00:00.000Z'],
    ['lt', '2026-04-01T22:00:00.000Z'],
  ])
  assert.equal(beginOf('2026-07-01', 'America/New_York'), '2026-07-01T04:00:00.000Z')
  assert.equal(beginOf('2026-07-01', 'Asia/Kolkata'), '2026-06-30T18:30:00.000Z')
})

test('me is the reader', () => {
  const reader = { id: 5, zone: 'UTC' }
  assert.deepEqual(absolute(WHO, 'in', 'me,7,5', 0, reader), [['in', '5,7']])
  assert.deepEqual(absolute(NAME, 'exact', 'me', 0, reader), [['exact', 'me']])
  readBy(reader)
  assert.equal(query(read('?who=me', [WHO])), 'who=5&limit=25')
})

test('a parameter that is there twice stays so', () => {
  const search = '?name__icontains=a&name__icontains=b%26c&limit=50'
  assert.equal(stringifySearch(parseSearch(search)), search)
  assert.equal(query(read(search, COLUMNS)), 'name__icontains=a&name__icontains=b%26c&limit=50')
  assert.equal(stringifySearch({}), '')
})
