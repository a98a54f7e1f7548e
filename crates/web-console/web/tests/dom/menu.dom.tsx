import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { renew } from '../../src/api/session.ts'
import { menu } from '../../src/shared/menu.ts'
import { open } from './page.tsx'

/** The addresses in the menu of a user of this account type without permissions. */
async function addresses(accountType: string): Promise<string[]> {
  const session = {
    access_token: 'token',
    expires_in: 900,
    user: { id: 1, account_type: accountType },
    permissions: {},
    password_change_required: false,
    second_factor_required: false,
    ui_config: [],
  }
  await open('/', <p />, { 'POST /api/auth/browser/token/': session })
  // The timer of the next renewal would keep the process alive.
  mock.timers.enable({ apis: ['setTimeout'] })
  await renew()
  mock.timers.reset()
  return menu().flatMap(({ entries }) => entries.map(({ to }) => to))
}

test('only super admins have limits and provisioning in the menu', async () => {
  const own = ['/', '/tasks', '/forms']
  assert.deepEqual(await addresses('super_admin'), [...own, '/admin/provisioning', '/admin/limits'])
  assert.deepEqual(await addresses('service_internal'), [...own, '/admin/provisioning', '/admin/limits'])
  assert.deepEqual(await addresses('full'), own)
  assert.deepEqual(await addresses('internal'), own)
})
