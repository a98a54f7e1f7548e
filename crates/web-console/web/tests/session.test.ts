import assert from 'node:assert/strict'
import test from 'node:test'

/** The messages of the other tabs, and those to them. */
const told: unknown[] = []
let channel: { onmessage?: (event: { data: unknown }) => void } = {}
let reloads = 0
let answers: { [path: string]: () => Response } = {}
const asked: string[] = []
/** The addresses to which the tab was led, and its storage. */
const led: string[] = []
const kept = new Map<string, string>()
let runsTimers = false
let emptied = 0

Object.assign(globalThis, {
  BroadcastChannel: class {
    constructor() {
      channel = this as unknown as typeof channel
    }
    postMessage(data: unknown) {
      told.push(data)
    }
  },
  location: {
    reload: () => reloads++,
    assign: () => {},
    replace: (to: string) => led.push(to),
    pathname: '/console/',
    search: '',
    hash: '',
  },
  document: { body: { replaceChildren: () => emptied++ } },
  history: { replaceState: (_: null, __: string, to: string) => led.push(to) },
  sessionStorage: {
    getItem: (name: string) => kept.get(name) ?? null,
    setItem: (name: string, value: string) => kept.set(name, value),
    removeItem: (name: string) => kept.delete(name),
  },
  setTimeout: (go: () => void) => {
    if (runsTimers) queueMicrotask(go)
    return 0
  },
  fetch: async (path: string) => {
    asked.push(path)
    const answer = answers[path]
    if (!answer) throw new TypeError('Failed to fetch')
    return answer()
  },
})

const {
  begin,
  isUnrestricted,
  addConfigured: isConfigured,
  mayBeConfigured,
  onSignIn,
  renew,
  session,
  signOut,
} = await import('../src/api/session.ts')
const { call, Refusal } = await import('../src/api/request.ts')

const TOKEN = '/api/auth/browser/token/'
let count = 0
const start = () => Response.json({ access_token: `${count++}`, expires_in: 900, user: { id: 7 }, permissions: {} })
const refused = () => Response.json({ detail: 'No.' }, { status: 401 })

test('a tab that begins tells the others who is signed in', async () => {
  answers = { [TOKEN]: start }
  await begin(() => {})
  assert.deepEqual(told.splice(0), [{ signedIn: 7 }])
})

test('a refused start is reported and tried again', async () => {
  let tries = 0
  const headers = { 'X-Request-Id': 'abc', 'Retry-After': '3' }
  answers = { [TOKEN]: () => (tries++ ? start() : Response.json({}, { status: 503, headers })) }
  const failures: unknown[] = []
  runsTimers = true
  await begin(({ status, requestId }, pause) => failures.push([status, requestId, pause]))
  runsTimers = false
  assert.deepEqual(failures, [[503, 'abc', 3000]])
})

test('the page for signing in leads back, also to a long address', async () => {
  answers = { [TOKEN]: refused }
  Object.assign(location, { pathname: '/console/admin/users', search: '?limit=50' })
  void begin(() => {})
  await new Promise(setImmediate)
  assert.deepEqual(led.splice(0), ['/sign-in/?return_to=%2Fconsole%2Fadmin%2Fusers%3Flimit%3D50'])
  const search = `?full_name__icontains=${'x'.repeat(500)}`
  Object.assign(location, { search })
  void begin(() => {})
  await new Promise(setImmediate)
  assert.deepEqual(led.splice(0), ['/sign-in/?return_to=%2Fconsole%2F'])
  Object.assign(location, { pathname: '/console/', search: '' })
  answers = { [TOKEN]: start }
  await begin(() => {})
  assert.deepEqual([led.splice(0), kept.size], [[`/console/admin/users${search}`], 0])
  told.splice(0)
})

test('a request whose token is too old is sent again with a new one, and not a third time', async () => {
  let isFirst = true
  const once = () => {
    const answer = isFirst ? refused() : Response.json({ id: 1 })
    isFirst = false
    return answer
  }
  answers = { [TOKEN]: start, '/api/roles/': once, '/api/users/': refused }
  assert.deepEqual((await call('GET', '/api/roles/')).data, { id: 1 })
  asked.splice(0)
  await assert.rejects(call('GET', '/api/users/'), (error) => error instanceof Refusal && error.status === 401)
  assert.deepEqual(asked, ['/api/users/', TOKEN, '/api/users/'])
})

test('the session names the configurations, and a stored one is added', async () => {
  const starting = (ui_config: string[] | null) => () =>
    Response.json({ access_token: `${count++}`, expires_in: 900, user: { id: 7 }, permissions: {}, ui_config })
  const known = async (ui_config: string[] | null) => {
    answers = { [TOKEN]: starting(ui_config) }
    await renew()
    return [mayBeConfigured('menu'), mayBeConfigured('home')]
  }
  assert.deepEqual(await known(null), [false, false])
  assert.deepEqual(await known(['menu']), [true, false])
  isConfigured('home')
  assert.deepEqual([mayBeConfigured('menu'), mayBeConfigured('home')], [true, true])
})

test('a refusal has the request, and says whether it is temporary', async () => {
  answers = { '/api/roles/': () => new Response('', { status: 503, headers: { 'Retry-After': '3' } }) }
  await assert.rejects(call('GET', '/api/roles/'), (error) => {
    assert.ok(error instanceof Refusal)
    assert.deepEqual(
      [error.asked, error.retryAfter, error.isPassing],
      [{ method: 'GET', path: '/api/roles/' }, 3, true],
    )
    return true
  })
})

test('a failed sign-out is reported', async () => {
  answers = {}
  await assert.rejects(signOut(), (error) => error instanceof Refusal && error.status === 0)
  assert.deepEqual(told, [])
})

test('a tab of another user is loaded again', () => {
  channel.onmessage?.({ data: { signedIn: 7 } })
  assert.equal(reloads, 0)
  channel.onmessage?.({ data: { signedIn: 8 } })
  assert.equal(reloads, 1)
})

test('signing out empties the tab, and all the others', async () => {
  answers = { [TOKEN]: start, '/api/auth/browser/logout/': () => new Response(null, { status: 204 }) }
  await renew()
  await signOut()
  assert.deepEqual([told.splice(0), led.splice(0), emptied, session()], [['signed-out'], ['/sign-in/'], 1, undefined])
  await renew()
  assert.ok(session())
  kept.set('chancery.return-to', '/console/admin/users?full_name__icontains=x')
  channel.onmessage?.({ data: 'signed-out' })
  assert.deepEqual([told, led.splice(0), emptied, session(), kept.size], [[], ['/sign-in/'], 2, undefined, 0])
})

test('a part of the page continues after a sign-in in another window', async () => {
  answers = { [TOKEN]: start }
  await renew()
  let continued = 0
  const stop = onSignIn(() => continued++)
  asked.splice(0)
  const signedIn = async (id: number | undefined) => {
    channel.onmessage?.({ data: { signedIn: id } })
    await new Promise((resolve) => setImmediate(resolve))
  }
  await signedIn(session()?.user?.id)
  assert.deepEqual([asked.splice(0), continued], [[TOKEN], 1])
  // Without a session there is nothing to continue with.
  answers = { [TOKEN]: () => Response.json({}, { status: 401 }) }
  await signedIn(session()?.user?.id)
  assert.equal(continued, 1)
  stop()
})

test('a session whose user must add a second factor is renewed, so that the frame says so', async () => {
  let isRequired = false
  answers = {
    [TOKEN]: () =>
      Response.json({ access_token: 'x', expires_in: 900, user: { id: 7 }, second_factor_required: isRequired }),
    '/api/roles/': () => Response.json({ detail: 'Second factor required.' }, { status: 403 }),
  }
  await renew()
  assert.ok(isUnrestricted())
  isRequired = true
  asked.splice(0)
  await assert.rejects(call('GET', '/api/roles/'), (error) => error instanceof Refusal && error.status === 403)
  await renew()
  assert.deepEqual([asked.splice(0), isUnrestricted()], [['/api/roles/', TOKEN], false])
  // Further refusals ask for nothing.
  await assert.rejects(call('GET', '/api/roles/'), Refusal)
  assert.deepEqual(asked.splice(0), ['/api/roles/'])
})
