import assert from 'node:assert/strict'
import test from 'node:test'
import type { Instance } from '../src/api/shapes.ts'
import { nameIn, placeOf } from '../src/screens/log/log-places.ts'

const UUID = '019c1371-2a40-7a5e-9a4b-3f0f8d2f5d11'
const ROUTES = { users: '/admin/users', integrations: '/admin/integrations', object_classes: '/admin/classes' }
const place = (line: object) => placeOf({ action: 'edit', object_id: null, changes: {}, ...line } as Instance, ROUTES)

test('a line of the log leads to its subject', () => {
  assert.equal(place({ resource: 'users', object_id: 7 }), '/admin/users/7')
  assert.equal(place({ resource: 'integrations', object_name: `${UUID} Accounting` }), `/admin/integrations/${UUID}`)
  assert.equal(place({ resource: 'company_details', object_id: 1 }), '/admin/company')
  assert.equal(place({ resource: 'object_class_fields', object_id: 3 }), undefined)
  assert.equal(
    place({ resource: 'object_class_fields', object_id: 3, changes: { object_class: [null, 2] } }),
    '/admin/classes/2',
  )
  const form = { resource: 'object_class_forms', object_name: `${UUID} Order` }
  assert.equal(place({ ...form, changes: { object_class: [null, 2] } }), `/admin/classes/2/forms/${UUID}`)
  assert.equal(place(form), `/forms/${UUID}`)
  assert.equal(place({ resource: 'identities', object_id: 1, changes: { user: [4, null] } }), '/admin/users/4')
})

test('a deleted object leads to its list', () => {
  assert.equal(place({ resource: 'users', object_id: 7, action: 'delete' }), '/admin/users')
})

test('a uuid before a name is left out', () => {
  assert.equal(nameIn({ object_name: `${UUID} Accounting` }), 'Accounting')
  assert.equal(nameIn({ object_name: 'Accounting' }), 'Accounting')
  assert.equal(nameIn({ object_name: UUID }), UUID)
})
