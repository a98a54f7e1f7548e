import assert from 'node:assert/strict'
import test from 'node:test'
import { missingRight } from '../src/generic/right.ts'

const HELD = { users: { list: true, view: true }, roles: {} }

test('the method and the address of a refused request reveal the permission', () => {
  const by = 'role'
  assert.deepEqual(missingRight({ method: 'PATCH', path: '/api/users/5/' }, HELD), {
    resource: 'users',
    action: 'edit',
    by,
  })
  assert.deepEqual(missingRight({ method: 'POST', path: '/api/users/' }, HELD), {
    resource: 'users',
    action: 'create',
    by,
  })
  assert.deepEqual(missingRight({ method: 'GET', path: '/api/roles/?limit=25' }, HELD), {
    resource: 'roles',
    action: 'list',
    by,
  })
})

test('rights on records are given with their class', () => {
  const right = { resource: 'object_records', action: 'view', by: 'class' }
  assert.deepEqual(missingRight({ method: 'GET', path: '/api/object-classes/3/object-records/' }, HELD), right)
  assert.deepEqual(missingRight({ method: 'DELETE', path: '/api/object-records/8/' }, HELD), {
    ...right,
    action: 'delete',
  })
})

test('a permission that exists or cannot be derived is not named', () => {
  assert.equal(missingRight({ method: 'GET', path: '/api/users/5/' }, HELD), undefined)
  assert.equal(missingRight({ method: 'POST', path: '/api/users/5/unlock/' }, HELD), undefined)
  assert.equal(missingRight({ method: 'GET', path: '/api/search/' }, HELD), undefined)
  assert.equal(missingRight(undefined, HELD), undefined)
})
