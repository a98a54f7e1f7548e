import assert from 'node:assert/strict'
import test from 'node:test'
import { dependents, give, take } from '../src/generic/actions.ts'

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

test('an action brings along what it requires, also of other resources', () => {
  assert.deepEqual(give(FIELDS, {}, 'tasks', 'assign'), { tasks: ['assign', 'view'], object_records: ['view'] })
})

test('with an action goes what requires it', () => {
  const held = { object_records: ['view', 'edit'], tasks: ['view', 'assign'] }
  assert.deepEqual(dependents(FIELDS, held, 'tasks', 'view'), [['tasks', 'assign']])
  assert.deepEqual(take(FIELDS, held, 'tasks', 'view'), { object_records: ['view', 'edit'], tasks: [] })
  assert.deepEqual(take(FIELDS, held, 'object_records', 'view'), { object_records: [], tasks: [] })
})
