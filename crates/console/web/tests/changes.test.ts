import assert from 'node:assert/strict'
import test from 'node:test'
import { changed, merge, messages } from '../src/generic/changes.ts'

test('only what changed is sent, of groups only the members that did', () => {
  const before = { name: 'A', roles: [1, 2], rules: { min: 1, max: 2 } }
  assert.deepEqual(changed(before, { name: 'A', roles: [2, 1], rules: { min: 1, max: 3 } }, ['rules']), {
    roles: [2, 1],
    rules: { max: 3 },
  })
})

test('fields that one side changed are merged; those that both changed are asked about', () => {
  const base = { name: 'A', phone: '1', title: 'x' }
  const { merged, clashes } = merge(base, { ...base, phone: '2', title: 'y' }, { ...base, name: 'B', title: 'z' })
  assert.deepEqual(merged, { name: 'B', phone: '2', title: 'y' })
  assert.deepEqual(clashes, [{ alias: 'title', theirs: 'y', ours: 'z' }])
})

test('the same change of both sides is none to ask about', () => {
  assert.deepEqual(merge({ name: 'A' }, { name: 'B' }, { name: 'B' }), { merged: { name: 'B' }, clashes: [] })
})

test('messages stand at the dotted names of their fields', () => {
  const body = {
    name: ['This field is required.'],
    fields: { total: ['A valid number is required.', 'Too large.'] },
    detail: 'No.',
    error_code: 'ERR_LIMIT_EXCEEDED',
    reminders: [{}, { time_value: ['Wrong.'] }],
  }
  assert.deepEqual(messages(body), {
    name: 'This field is required.',
    'fields.total': 'A valid number is required. Too large.',
    '': 'No.',
    'reminders: time_value': 'Wrong.',
  })
})
