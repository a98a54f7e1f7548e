import assert from 'node:assert/strict'
import test from 'node:test'
import type { Field, Instance } from '../src/api/shapes.ts'
import { namesIn } from '../src/screens/records/known-names.ts'

const FIELDS = [
  { alias: 'supplier', type: 'relation', required: true },
  { alias: 'responsible', type: 'user', required: false },
] as Field[]

test('people and related records are called as the record and its events call them', () => {
  const record = {
    id: 81,
    supplier: 16,
    responsible: 7,
    owner: { id: 5, first_name: 'Emma', last_name: 'Lindqvist', username: 'emma@example.com' },
    created_by: { id: 1, first_name: '', last_name: '', username: 'admin@example.com' },
    _meta: { labels: { supplier: 'Pine Energy', responsible: 'Jonas Weber' } },
  } as unknown as Instance
  const events = [
    { source_type: 'user', source_id: 3, source_name: 'Anna Berg', event_data: [] },
    { source_type: 'system', source_id: 4, source_name: 'nobody', event_data: null },
    { source_type: 'user', source_id: null, source_name: '', event_data: [{ id: 9, type: 'user', name: 'Mia' }] },
    { source_type: 'mcp', event_data: [{ id: 2, type: 'user_group', name: 'Partners' }] },
  ] as unknown as Instance[]
  const { people, records } = namesIn(record, FIELDS, events)
  assert.deepEqual(
    [...people].toSorted(([a], [b]) => a - b),
    [
      [1, 'admin@example.com'],
      [3, 'Anna Berg'],
      [5, 'Emma Lindqvist'],
      [7, 'Jonas Weber'],
      [9, 'Mia'],
    ],
  )
  assert.deepEqual([...records], [[16, 'Pine Energy']])
})

test('a related record that may not be seen has no name', () => {
  const record = { supplier: 16, _meta: { labels: { supplier: null } } } as unknown as Instance
  const { records, hidden } = namesIn(record, FIELDS, [])
  assert.deepEqual([[...records], [...hidden]], [[], [16]])
})
