import assert from 'node:assert/strict'
import test from 'node:test'
import type { Instance } from '../src/api/shapes.ts'
import { isLate, stepsOf, stepTo } from '../src/screens/tasks/steps.ts'

const task = (status: string, more: object = {}) =>
  ({ status, _meta: { permissions: { edit: true, complete: true } }, ...more }) as unknown as Instance

test('a task offers the steps that its state and the permissions allow', () => {
  assert.deepEqual(stepsOf(task('open'), 1), ['complete', 'cancel'])
  assert.deepEqual(stepsOf(task('open', { _meta: { permissions: { complete: true } } }), 1), ['complete'])
  assert.deepEqual(stepsOf(task('in_approval', { completed_by: { id: 2 } }), 1), ['approve', 'reject', 'cancel'])
  assert.deepEqual(stepsOf(task('in_approval', { completed_by: { id: 1 } }), 1), ['cancel'])
  assert.deepEqual(stepsOf(task('expired'), 1), ['reopen'])
})

test('a card goes where a step leads', () => {
  assert.equal(stepTo(task('open'), 'completed', 1), 'complete')
  assert.equal(stepTo(task('open'), 'open', 1), undefined)
  assert.equal(stepTo(task('open'), 'rejected', 1), undefined)
  assert.equal(stepTo(task('in_approval'), 'completed', 1), 'approve')
  assert.equal(stepTo(task('canceled'), 'open', 1), 'reopen')
})

test('only an open task is late', () => {
  const due_at = '2026-01-01T00:00:00Z'
  const now = Date.parse('2026-01-02T00:00:00Z')
  assert.equal(isLate(task('open', { due_at }), now), true)
  assert.equal(isLate(task('completed', { due_at }), now), false)
  assert.equal(isLate(task('open', { due_at: null }), now), false)
})
