import assert from 'node:assert/strict'
import test from 'node:test'
import { changesOf } from '../src/screens/records/event-changes.ts'

test('previous values come from older events', () => {
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
