import assert from 'node:assert/strict'
import test from 'node:test'
import { changed, merge, messages, put } from '../src/generic/changes.ts'

test('only changes are sent, and only changed members of groups', () => {
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

const GROUPS = [
  {
    alias: 'permissions',
    type: 'object',
    required: true,
    schema: ['users', 'roles', 'tasks'].map((alias) => ({ alias, type: 'set', required: false })),
  },
]

test('of a group the members are merged, and only those that both changed are asked about', () => {
  const base = { name: 'A', permissions: { users: ['list'], roles: ['list'], tasks: [] } }
  const theirs = { name: 'A', permissions: { users: ['list', 'view'], roles: [], tasks: [] } }
  const ours = { name: 'B', permissions: { users: ['list'], roles: ['list', 'edit'], tasks: ['view'] } }
  assert.deepEqual(merge(base, theirs, ours, GROUPS), {
    merged: { name: 'B', permissions: { users: ['list', 'view'], roles: [], tasks: ['view'] } },
    clashes: [{ alias: 'permissions.roles', theirs: [], ours: ['list', 'edit'] }],
  })
})

test('a member that only one side knows of is no clash', () => {
  const base = { permissions: { users: ['list'] } }
  const theirs = { permissions: { users: ['list'], roles: ['list'] } }
  const ours = { permissions: { users: ['list'], tasks: ['view'] } }
  assert.deepEqual(merge(base, theirs, ours, GROUPS), {
    merged: { permissions: { users: ['list'], roles: ['list'], tasks: ['view'] } },
    clashes: [],
  })
})

test('a member that they took away goes, and is asked about where we changed it', () => {
  const base = { permissions: { users: ['list'], roles: ['list'] } }
  const theirs = { permissions: {} }
  const ours = { permissions: { users: ['list'], roles: ['edit'] } }
  assert.deepEqual(merge(base, theirs, ours, GROUPS), {
    merged: { permissions: {} },
    clashes: [{ alias: 'permissions.roles', theirs: undefined, ours: ['edit'] }],
  })
})

test('an object that is no group is one value', () => {
  const [base, theirs, ours] = [
    { a: 1, b: 1 },
    { a: 2, b: 1 },
    { a: 1, b: 2 },
  ].map((rules) => ({ rules }))
  assert.deepEqual(merge(base ?? {}, theirs ?? {}, ours ?? {}).clashes, [
    { alias: 'rules', theirs: { a: 2, b: 1 }, ours: { a: 1, b: 2 } },
  ])
})

test('a chosen value is put at its dotted name', () => {
  const values = { name: 'A', permissions: { users: ['list'] } }
  assert.deepEqual(put(values, 'permissions.roles', ['edit']), {
    name: 'A',
    permissions: { users: ['list'], roles: ['edit'] },
  })
  assert.deepEqual(put(values, 'name', 'B'), { ...values, name: 'B' })
  assert.deepEqual(put(values, 'permissions.users', undefined), { name: 'A', permissions: {} })
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
