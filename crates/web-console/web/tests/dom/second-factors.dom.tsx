import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import decodeQR from 'qr/decode.js'
import { renew } from '../../src/api/session.ts'
import { SecondFactors } from '../../src/shared/second-factors/second-factors.tsx'
import { all, eventually, open, pageOf, press, texts, type } from './page.tsx'

const FACTORS = '/api/users/me/second-factors/'
const SESSION = {
  access_token: 'token',
  expires_in: 900,
  password_change_required: false,
  second_factor_required: false,
  user: { id: 1, account_type: 'internal' },
  permissions: {},
  ui_config: [],
  build: 'a.example',
}
const SECRET = 'I7E2OYVZXETZZVTAYKARSGBQVTGXZNA7'
const ADDRESS = `otpauth://totp/a.example:anna%40example.com?secret=${SECRET}&issuer=a.example`

/** Reads a QR code of modules of one unit, which a path has as `M{x} {y}h1v1h-1z`. */
function readCode(svg: Element): string {
  const SCALE = 4
  const size = Number(svg.getAttribute('viewBox')?.split(' ')[2]) * SCALE
  const data = new Uint8Array(size * size * 4).fill(255)
  for (const [, x, y] of `${svg.querySelector('path')?.getAttribute('d')}`.matchAll(/M(\d+) (\d+)/g))
    for (let row = 0; row < SCALE; row++)
      for (let column = 0; column < SCALE; column++) {
        const at = (Number(y) * SCALE + row) * size + Number(x) * SCALE + column
        data.fill(0, at * 4, at * 4 + 3)
      }
  return decodeQR({ width: size, height: size, data })
}

test('an authenticator app reads its address from the QR code, and the first code confirms it', async () => {
  const factor = { id: 3, type: 'totp', name: 'Phone', created_at: '2026-01-31T09:30:00.000000Z', last_used_at: null }
  let factors: (typeof factor)[] = []
  const { requests } = await open('/me', <SecondFactors />, {
    'POST /api/auth/browser/token/': SESSION,
    [`GET ${FACTORS}`]: () => pageOf(factors),
    [`GET ${FACTORS}recovery-codes/`]: { left: 2 },
    [`POST ${FACTORS}`]: { ...factor, secret: SECRET, uri: ADDRESS },
    [`POST ${FACTORS}3/confirm/`]: () => {
      factors = [factor]
      return { ...factor, recovery_codes: ['ABCDE-12345', 'FGHJK-67890'] }
    },
  })
  // The timer of the next renewal would keep the process alive.
  mock.timers.enable({ apis: ['setTimeout'] })
  await renew()
  mock.timers.reset()
  await press('Add an authenticator app')
  await type('name', 'Phone')
  await press('Continue')
  const [svg] = await eventually(() => {
    const found = all('svg[role=img]')
    assert.equal(found.length, 1)
    return found
  })
  assert.equal(svg && readCode(svg), ADDRESS)
  await type('code', '123 456')
  await press('Confirm')
  await eventually(() => assert.deepEqual(texts('[role=alertdialog] li'), ['ABCDE-12345', 'FGHJK-67890']))
  await press('I have stored them')
  await eventually(() =>
    assert.match(document.body.textContent ?? '', /2 recovery codes are left.*before you run out/s),
  )
  const sent = requests.filter(({ method, path }) => method === 'POST' && path.startsWith(FACTORS))
  assert.deepEqual(
    sent.map(({ path, body }) => [path, body]),
    [
      [FACTORS, { type: 'totp', name: 'Phone' }],
      [`${FACTORS}3/confirm/`, { code: '123456' }],
    ],
  )
})
