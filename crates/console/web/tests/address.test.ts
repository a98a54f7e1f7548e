import assert from 'node:assert/strict'
import test from 'node:test'
import { lastPage, query, read, sortedBy, usual, withFilters, write } from '../src/generic/address.ts'

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

test('a filter begins with what people mean most', () => {
  assert.deepEqual(COLUMNS.map(usual), ['icontains', 'in'])
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
