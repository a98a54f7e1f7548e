import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Column, Instance } from '../../src/api/shapes.ts'
import { type ListState, read, write } from '../../src/generic/address.ts'
import { Filters } from '../../src/generic/filters.tsx'
import { all, eventually, key, open, press, texts, type } from './page.tsx'

const COLUMNS: Column[] = [
  { alias: 'name', type: 'string', predicates: ['exact', 'icontains', 'isnull'], sort_ok: true, label: 'Name' },
  {
    alias: 'kind',
    type: 'enum',
    predicates: ['exact', 'in'],
    sort_ok: true,
    label: 'Kind',
    values: [
      { value: 'a', text: 'Alpha' },
      { value: 'b', text: 'Beta' },
    ],
  },
  { alias: 'is_enabled', type: 'boolean', predicates: ['exact'], sort_ok: true, label: 'Enabled' },
  { alias: 'owner', type: 'user', predicates: ['in'], sort_ok: false, label: 'Owner', autocomplete: '/api/users/?x=' },
  { alias: 'note', type: 'text', predicates: [], sort_ok: false, label: 'Note' },
]
const LINES: Instance[] = [{ id: 1, owner: 7, _meta: { labels: { owner: 'Ada Berg' } } }]

let states: ListState[] = []
const change = (state: ListState) => states.push(state)
/** The address of the last state. */
const last = () => write(states.at(-1) as ListState)

async function openFilters(search: string) {
  states = []
  const state = read(search, COLUMNS)
  await open('/', <Filters state={state} columns={COLUMNS} lines={LINES} onChange={change} />, {})
  await eventually(() => assert.equal(all('[role=group]').length, 1))
}

const chips = () => texts('[role=group] > span').map((text) => text.replace(/×$/, ''))

test('a filter is shown in words', async () => {
  await openFilters('?name__icontains=ber&kind__in=a,b&is_enabled=false&owner__in=7&name__isnull=false')
  assert.deepEqual(chips(), [
    'Name contains ber',
    'Kind is any of Alpha, Beta',
    'Enabled is No',
    'Owner is any of Ada Berg',
    'Name is not empty',
  ])
})

test('a filter is removed, and the list begins at its first page', async () => {
  await openFilters('?name=x&kind=a&offset=25')
  await press('Remove the filter of Name')
  assert.equal(last(), '?kind=a')
})

test('all filters are removed at once', async () => {
  await openFilters('?name=x&kind=a&ordering=name')
  await press('Remove all filters')
  assert.equal(last(), '?ordering=name')
})

test('a part of the address that the list does not have can be removed', async () => {
  await openFilters('?gone=1&ordering=gone_too&name=x')
  assert.equal(chips().length, 3)
  await press('Remove the filter of gone')
  assert.equal(last(), '?name=x')
  await press('Remove the order by gone_too')
  assert.equal(last(), '?name=x&gone=1')
})

test('a filter is added with its most usual predicate when it is complete', async () => {
  await openFilters('?kind=a')
  await key('f')
  await eventually(() => assert.deepEqual(texts('[role=menuitem]'), ['Name', 'Kind', 'Enabled', 'Owner']))
  await press('Name')
  await type('value', 'ber')
  await press('Filter')
  assert.equal(last(), '?kind=a&name__icontains=ber')
})

test('a filter without a value cannot be applied', async () => {
  await openFilters('?name__icontains=ber')
  await press('Name contains ber')
  await type('value', '')
  const apply = await eventually(() => {
    const [found] = all('button[type=submit]')
    assert.ok(found)
    return found as HTMLButtonElement
  })
  assert.equal(apply.disabled, true)
  await type('value', 'ada')
  await press('Filter')
  assert.equal(last(), '?name__icontains=ada')
})
