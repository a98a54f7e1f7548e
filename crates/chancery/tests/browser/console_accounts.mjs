// Accounts as organisations expect them: second factors, passkeys alone, recovery codes, rules, API keys and tokens of directories. All of
// it by keyboard alone, in wide and in narrow windows.

import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { ask, end, everyWidth, journey, settings } from './browser.mjs'
import { count, go, heading, open, settled, signIn, tabTo, tabToName } from './console_steps.mjs'

const { api, password } = settings

const DIALOG = '[role=dialog], [role=alertdialog]'
const STEP_S = 30

/** The account of a journey. Each width has its own, because the widths run at once. */
const personOf = (page, name) => ({ username: `${name}${page.viewportSize().width}@example.com`, password })

const press = async (page, ...keys) => {
  for (const key of keys) await page.keyboard.press(key)
}

/** Moves to an element by Tab, and presses it. */
async function use(page, name) {
  await tabToName(page, name)
  await press(page, 'Enter')
}

/** Replaces the text of the field that has the focus. */
async function typeOver(page, text) {
  await press(page, 'Control+a')
  await page.keyboard.type(text)
}

const shows = (page, text) => page.getByText(text).first().waitFor()

/** The code of an authenticator app for a step. */
function codeAt(secret, step) {
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
  const bits = [...secret].map((letter) => letters.indexOf(letter).toString(2).padStart(5, '0')).join('')
  const key = Buffer.from(bits.match(/.{8}/g).map((byte) => Number.parseInt(byte, 2)))
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(step))
  const tag = createHmac('sha1', key).update(counter).digest()
  return `${(tag.readUInt32BE(tag[19] & 15) & 0x7fffffff) % 1_000_000}`.padStart(6, '0')
}

/** An authenticator app, which shows a code of each step once. */
class App {
  constructor(secret) {
    Object.assign(this, { secret, last: 0 })
  }

  async next() {
    const now = () => Math.floor(Date.now() / 1000 / STEP_S)
    // The server also accepts the step before and the step after the current one.
    while (this.last > now()) await new Promise((resolve) => setTimeout(resolve, 500))
    this.last = Math.max(this.last + 1, now())
    return codeAt(this.secret, this.last)
  }
}

/** Adds a virtual authenticator to the browser, which stores passkeys and knows its user. */
async function addAuthenticator(page) {
  const devtools = await page.context().newCDPSession(page)
  await devtools.send('WebAuthn.enable')
  const options = {
    protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true, isUserVerified: true,
    automaticPresenceSimulation: true,
  }
  const { authenticatorId } = await devtools.send('WebAuthn.addVirtualAuthenticator', { options })
  return {
    verify: (isUserVerified) => devtools.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified }),
    count: async () => (await devtools.send('WebAuthn.getCredentials', { authenticatorId })).credentials.length,
  }
}

/** Reads the recovery codes of the open dialog, and closes it. */
async function storeCodes(page, tab) {
  await page.waitForSelector('[role=alertdialog] li code')
  const codes = await page.locator('[role=alertdialog] li code').allInnerTexts()
  assert.equal(codes.length, 10)
  await tab.isAccessible('recovery codes')
  await use(page, 'I have stored them')
  await page.waitForSelector('[role=alertdialog]', { state: 'detached' })
  return codes
}

/** Adds an authenticator app on the open page. Returns the app and the first recovery codes. */
async function addApp(page, tab, name) {
  await use(page, 'Add an authenticator app')
  await page.waitForSelector(`${DIALOG} >> [name=name]:focus`)
  await tab.isAccessible('the name of an app')
  await typeOver(page, name)
  await press(page, 'Enter')
  await page.waitForSelector(`${DIALOG} >> [name=code]:focus`)
  assert.equal(await page.getByRole('img', { name: 'QR code for your authenticator app' }).count(), 1)
  const secret = (await page.locator(`${DIALOG} >> code`).innerText()).replaceAll(' ', '')
  await tab.isAccessible('the secret of an app')
  const app = new App(secret)
  await page.keyboard.type('12')
  await press(page, 'Enter')
  await shows(page, 'Invalid code.')
  await page.waitForSelector(`${DIALOG} >> [name=code]:focus`)
  await tab.isAccessible('a wrong code')
  tab.isSilent('400')
  await typeOver(page, await app.next())
  await press(page, 'Enter')
  return { app, codes: await storeCodes(page, tab) }
}

/** Ends the session of the browser, and opens the page to sign in with the password. */
async function signInAgain(page, who, query = '?return_to=%2Fconsole%2Fme') {
  await page.context().clearCookies()
  await page.goto(`${api}/sign-in/${query}`)
  await signIn(page, who)
}

/** Nothing of a secret is in the address, or in a storage that outlives the page. */
async function leavesNothing(page, ...secrets) {
  const stored = await page.evaluate(() => JSON.stringify([location.href, { ...localStorage }, { ...sessionStorage }, document.cookie]))
  for (const secret of secrets) assert.ok(!stored.includes(secret), stored)
}

await journey('an authenticator app is added and used, then a recovery code', async (page, tab) => {
  const who = personOf(page, 'app')
  await open(page, '/me', who)
  await shows(page, 'You have no second factor.')
  const { app, codes } = await addApp(page, tab, 'Phone')
  await shows(page, '10 recovery codes are left.')
  await settled(page)
  await tab.isAccessible('factors')
  await leavesNothing(page, app.secret, codes[0])

  await signInAgain(page, who)
  await page.waitForSelector('[name=code]:focus')
  await tab.isAccessible('the second form')
  await page.keyboard.type('12')
  await press(page, 'Enter')
  await page.waitForSelector('[role=alert]')
  tab.isSilent('401')
  await page.waitForSelector('[name=code]:focus')
  await page.keyboard.type(await app.next())
  await press(page, 'Enter')
  await page.waitForURL(`${api}/console/me`)

  await signInAgain(page, who)
  await page.waitForSelector('[name=code]:focus')
  await page.keyboard.type(codes[3].toLowerCase().replace('-', ' '))
  await press(page, 'Enter')
  await page.waitForURL(`${api}/console/me`)
  await shows(page, '9 recovery codes are left.')
  await settled(page)
  await use(page, 'Create new codes')
  await page.waitForSelector(DIALOG)
  await tab.isAccessible('new codes')
  await use(page, 'Create new codes')
  const renewed = await storeCodes(page, tab)
  assert.ok(!renewed.includes(codes[0]))
  await shows(page, '10 recovery codes are left.')

  await use(page, 'Remove Phone')
  await page.waitForSelector(DIALOG)
  await shows(page, 'It is your last second factor.')
  await tab.isAccessible('the last factor')
  await use(page, 'Remove')
  await shows(page, 'You have no second factor.')
}, everyWidth)

await journey('a passkey is added, used after the password, and alone', async (page, tab) => {
  const who = personOf(page, 'passkey')
  const authenticator = await addAuthenticator(page)
  await open(page, '/me', who)
  await use(page, 'Add a passkey')
  await page.waitForSelector(`${DIALOG} >> [name=name]:focus`)
  await tab.isAccessible('a passkey')
  await typeOver(page, 'Laptop')
  await press(page, 'Enter')
  await storeCodes(page, tab)
  await shows(page, 'Laptop')
  assert.equal(await authenticator.count(), 1)
  await use(page, 'Add a passkey')
  await page.waitForSelector(`${DIALOG} >> [name=name]:focus`)
  await press(page, 'Enter')
  await shows(page, 'This device already has a passkey for your account.')
  await tab.isAccessible('a second passkey of the device')
  await press(page, 'Escape')

  await signInAgain(page, who)
  await page.waitForSelector('button:focus >> text=Use a passkey')
  await tab.isAccessible('the second form with a passkey')
  await press(page, 'Enter')
  await page.waitForURL(`${api}/console/me`)
  await shows(page, 'last used')

  await page.context().clearCookies()
  await page.goto(`${api}/sign-in/?return_to=/console/tasks`)
  await tab.isAccessible('signing in with a passkey')
  await use(page, 'Sign in with a passkey')
  await page.waitForURL(`${api}/console/tasks`)

  // A passkey that does not know its user is not enough alone.
  await authenticator.verify(false)
  await page.context().clearCookies()
  await page.goto(`${api}/sign-in/?for=program&return_to=/api/docs/`)
  await use(page, 'Sign in with a passkey')
  await page.waitForSelector('[role=alert] >> text=No passkey was used.')
  await tab.isAccessible('a passkey that failed')
  await authenticator.verify(true)
  await use(page, 'Sign in with a passkey')
  await page.waitForSelector('text=You are signed in.')
  await use(page, 'Continue')
  await page.waitForURL(`${api}/api/docs/`, { waitUntil: 'commit' })
}, everyWidth)

await journey('the second form begins again where the first one was', async (page) => {
  const who = personOf(page, 'passkey')
  await page.goto(`${api}/sign-in/?for=program&return_to=/api/docs/`)
  await signIn(page, who)
  await page.waitForSelector('text=Begin again')
  await use(page, 'Begin again')
  await page.waitForURL(`${api}/sign-in/?for=program&return_to=%2Fapi%2Fdocs%2F`)
})

await journey('a change of factors asks for a recent sign-in, and continues after it', async (page, tab) => {
  const who = personOf(page, 'recent')
  await open(page, '/me', who)
  const { app } = await addApp(page, tab, 'Phone')
  await ask('let time pass')
  await use(page, 'Remove Phone')
  await page.waitForSelector(DIALOG)
  await use(page, 'Remove')
  await shows(page, 'Sign in again in another window')
  tab.isSilent('403')
  await tab.isAccessible('a sign-in that is not recent')
  const [other] = await Promise.all([page.waitForEvent('popup'), use(page, 'Sign in again')])
  await signIn(other, who)
  await other.waitForSelector('[name=code]:focus')
  await other.keyboard.type(await app.next())
  await other.keyboard.press('Enter')
  await shows(page, 'You have no second factor.')
  await page.waitForSelector(DIALOG, { state: 'detached' })
  // The first request after the sign-in had the token of the former session.
  for (const line of tab.console.splice(0)) assert.match(line, /401/)
  assert.ok(other.isClosed() || (await other.waitForEvent('close').then(() => true)))
})

// One window after the other, because both change the same rules.
for (const [width, type] of [[1280, 'full'], [320, 'external']]) {
  await journey('the rules for second factors', async (page, tab) => {
    await open(page, '/admin/sign-in')
    await use(page, 'Edit second factors')
    await tabTo(page, `main select[name=${type}]`)
    await page.keyboard.type('Required')
    await shows(page, 'People of this type who have no second factor must add one')
    await tab.isAccessible('rules that are edited')
    await press(page, 'Control+s')
    await shows(page, 'Saved.')
    await settled(page)
    await tab.isAccessible('rules')
  }, { widths: [width] })
}

await journey('people whose type requires a factor are led to adding one', async (page, tab) => {
  const who = personOf(page, 'due')
  count(page)
  await signInAgain(page, who, '?return_to=%2Fconsole%2Ftasks')
  await heading(page, 'Add a second factor')
  await settled(page)
  await tab.isAccessible('a factor that is due')
  await addApp(page, tab, 'Phone')
  await shows(page, 'Your account has a second factor now.')
  await tab.isAccessible('a factor that was due')
  await use(page, 'Continue')
  await heading(page, 'My tasks')
  await page.goto(`${api}/console/me`)
  await heading(page, 'My account')
  await use(page, 'Remove Phone')
  await page.waitForSelector(DIALOG)
  await use(page, 'Remove')
  await shows(page, 'Your account must have a second factor. Add another one first')
  tab.isSilent('400')
}, everyWidth)

await journey('an administrator resets the factors of a person', async (page, tab) => {
  await open(page, `/admin/users/${settings.ids[personOf(page, 'due').username]}`)
  await use(page, 'Actions')
  await page.waitForSelector('[role=menu]')
  while (!(await page.evaluate(() => document.activeElement.textContent.startsWith('Reset second factors')))) await press(page, 'ArrowDown')
  await press(page, 'Enter')
  await page.waitForSelector(DIALOG)
  await tab.isAccessible('resetting factors')
  await use(page, 'Reset second factors')
  await shows(page, 'The second factors were reset.')
}, everyWidth)

const call = (path, secret) => fetch(`${api}${path}`, { headers: { Authorization: `Bearer ${secret}` } })

/** Reads a secret of the open dialog, and closes it. */
async function storeSecret(page, tab, what) {
  await page.waitForSelector('[role=alertdialog] code')
  const secret = await page.locator('[role=alertdialog] code').innerText()
  await tab.isAccessible(what)
  await use(page, 'I have stored it')
  await page.waitForSelector('[role=alertdialog]', { state: 'detached' })
  await leavesNothing(page, secret)
  return secret
}

await journey('an API key of a service account is made, used and revoked', async (page, tab) => {
  await open(page, `/admin/users/${settings.ids[personOf(page, 'program').username]}`)
  await shows(page, 'This account has no API keys.')
  await use(page, 'New API key')
  await page.waitForSelector(`${DIALOG} >> [name=name]`)
  await tabTo(page, `${DIALOG.split(',')[0]} [name=name]`)
  await page.keyboard.type('Nightly import')
  await tabTo(page, `${DIALOG.split(',')[0]} [name=permissions]`)
  await press(page, 'ArrowDown')
  await page.getByRole('checkbox', { name: /^Groups: List/ }).waitFor()
  await tabToName(page, 'Groups: List')
  await press(page, 'Space')
  await tab.isAccessible('a new key')
  await press(page, 'Control+s')
  const key = await storeSecret(page, tab, 'a key that is shown once')
  assert.match(key, /^chk_/)
  await shows(page, 'Groups: List')
  assert.equal((await call('/api/user-groups/', key)).status, 200)
  assert.equal((await call('/api/roles/', key)).status, 403)
  await page.reload()
  await page.getByRole('button', { name: 'Revoke Nightly import' }).waitFor()
  await settled(page)
  await tab.isAccessible('keys')
  await shows(page, /last used/)
  await use(page, 'Revoke Nightly import')
  await page.waitForSelector(DIALOG)
  await use(page, 'Revoke')
  await shows(page, 'This account has no API keys.')
  assert.equal((await call('/api/user-groups/', key)).status, 401)
}, everyWidth)

await journey('the directory of an organisation is connected', async (page, tab) => {
  const width = page.viewportSize().width
  await open(page, '/admin/provisioning')
  await use(page, 'New token')
  await page.waitForSelector(`${DIALOG} >> [name=name]`)
  await tabTo(page, `${DIALOG.split(',')[0]} [name=name]`)
  await page.keyboard.type(`Directory ${width}`)
  await tabTo(page, `${DIALOG.split(',')[0]} [name=single_sign_on]`)
  await page.keyboard.type('Company')
  await tab.isAccessible('a new token')
  await press(page, 'Control+s')
  const token = await storeSecret(page, tab, 'a token that is shown once')
  const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/scim+json' }
  const make = async (kind, body) => {
    const answer = await fetch(`${api}/api/scim/v2/${kind}`, { method: 'POST', headers, body: JSON.stringify(body) })
    assert.equal(answer.status, 201)
    return (await answer.json()).id
  }
  const user = await make('Users', { userName: `made${width}@example.com` })
  const group = await make('Groups', { displayName: `Sales ${width}`, members: [{ value: user }] })
  await page.reload()
  await page.getByRole('button', { name: `Revoke Directory ${width}` }).waitFor()
  await settled(page)
  await tab.isAccessible('tokens')
  await page.locator('main a[href="/console/admin/users?is_provisioned=true"]').waitFor()
  await go(page, '/admin/users?is_provisioned=true')
  await page.locator('tbody', { hasText: `made${width}` }).waitFor()
  for (const path of [`/admin/users/${user}`, `/admin/groups/${group}`]) {
    await go(page, path)
    await shows(page, /^The directory of your organisation manages this/)
    await tab.isAccessible(path.replace(/\d+/, ''))
  }
  await go(page, '/admin/provisioning')
  await use(page, `Revoke Directory ${width}`)
  await page.waitForSelector(DIALOG)
  await use(page, 'Revoke')
  await page.getByRole('button', { name: `Revoke Directory ${width}` }).waitFor({ state: 'detached' })
  assert.equal((await call('/api/scim/v2/Users', token)).status, 401)
}, everyWidth)

await end()
