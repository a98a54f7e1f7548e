import assert from 'node:assert/strict'
import test from 'node:test'
import { dependents, grant, revoke } from '../src/generic/actions.ts'

const set = (alias: string, values: { [action: string]: string[] }) => ({
  alias,
  type: 'set',
  required: false,
  values: Object.entries(values).map(([value, requires]) => ({ value, text: value, requires })),
})
const FIELDS = [
  set('object_records', { view: [], edit: ['view'] }),
  set('tasks', { view: ['object_records.view'], assign: ['view'] }),
]

test('an action also selects the actions that it requires, also of other resources', () => {
  assert.deepEqual(grant(FIELDS, {}, 'tasks', 'assign'), { tasks: ['assign', 'view'], object_records: ['view'] })
})

test('removing an action also removes the actions that require it', () => {
  const held = { object_records: ['view', 'edit'], tasks: ['view', 'assign'] }
  assert.deepEqual(dependents(FIELDS, held, 'tasks', 'view'), [['tasks', 'assign']])
  assert.deepEqual(revoke(FIELDS, held, 'tasks', 'view'), { object_records: ['view', 'edit'], tasks: [] })
  assert.deepEqual(revoke(FIELDS, held, 'object_records', 'view'), { object_records: [], tasks: [] })
})

const CYCLE = [set('object_records', { list: ['view'], view: ['list'], edit: ['view'], delete: ['edit'] })]

test('actions that require each other are given together', () => {
  assert.deepEqual(grant(CYCLE, {}, 'object_records', 'delete'), { object_records: ['delete', 'edit', 'view', 'list'] })
})

test('actions that require each other are taken together', () => {
  const held = { object_records: ['list', 'view', 'edit'] }
  assert.deepEqual(dependents(CYCLE, held, 'object_records', 'view'), [
    ['object_records', 'list'],
    ['object_records', 'edit'],
  ])
  assert.deepEqual(dependents(CYCLE, held, 'object_records', 'edit'), [])
  assert.deepEqual(revoke(CYCLE, held, 'object_records', 'edit'), { object_records: ['list', 'view'] })
  assert.deepEqual(revoke(CYCLE, held, 'object_records', 'list'), { object_records: [] })
})
