// Uses the protocol of the console, and tries to exceed it.

const attempt = (work) => {
  try {
    return `${work()}`
  } catch (error) {
    return error.name
  }
}
const later = async (work) => {
  try {
    return `${await work()}`
  } catch (error) {
    return error.name
  }
}
const pause = (time) => new Promise((go) => setTimeout(go, time))
const call = (path) => later(async () => (await fetch(path, { method: 'POST', credentials: 'include' })).status)

/** A link of this page that leads to another site, as if a person pressed it. */
const follow = (target) => {
  const link = Object.assign(document.createElement('a'), { href: '/sign-in/', target })
  document.body.append(link)
  link.click()
  return 'pressed'
}

const tries = async () => ({
  cookie: attempt(() => document.cookie),
  storage: attempt(() => localStorage.length),
  parentDocument: attempt(() => parent.document.title),
  parentStorage: attempt(() => parent.localStorage.length),
  parentScript: attempt(() => parent.eval('1')),
  parentAddress: attempt(() => parent.location.href),
  token: await call('/api/auth/browser/token/'),
  signOut: await call('/api/auth/browser/logout/'),
  me: await later(() => fetch('/api/users/me/')),
  top: attempt(() => {
    top.location = '/sign-in/'
    return 'went'
  }),
  topLink: attempt(() => follow('_top')),
  popup: attempt(() => window.open('/')),
  dialog: attempt(() => alert('a script ran')),
})

/** The message of another tab of the console, which a component may not send. */
const speakBeside = (port) => {
  for (const name of ['chancery-session', 'chancery']) new BroadcastChannel(name).postMessage('signed-out')
  for (const message of ['signed-out', { type: 'value', value: 'beside the port' }, { type: 'ready' }])
    parent.postMessage(message, '*')
  const others = [
    'value',
    null,
    { type: 'navigate', to: '/sign-in/' },
    { type: 'init', use: 'landing_page' },
    { type: 'value' },
    { type: 'value', value: new Map([['a', 1]]) },
    { type: 'value', value: 'x'.repeat(2 ** 20) },
    { type: 'errors', errors: 'wrong' },
    { type: 'errors', errors: [{ toString: 'wrong' }] },
    { type: 'height', height: '1px' },
    { type: 'height', height: Number.POSITIVE_INFINITY },
  ]
  for (const message of others) port.postMessage(message)
}

addEventListener('message', async ({ source, data, ports }) => {
  if (source !== parent || data?.type !== 'init') return
  const [port] = ports
  port.postMessage({ type: 'ready' })
  const { type, ...told } = data
  document.querySelector('#flood').onclick = () => flood((message) => port.postMessage(message))
  document.body.dataset.told = JSON.stringify(told)
  if (data.use === 'landing_page') {
    const found = await tries()
    port.postMessage({ type: 'value', value: { told, ports: ports.length, found } })
    speakBeside(port)
    port.postMessage({ type: 'height', height: 1e9 })
    // Long enough to be seen by a test on a busy machine.
    await pause(3000)
    port.postMessage({ type: 'height', height: 321 })
  }
  document.querySelector('#wrong').onclick = () => port.postMessage({ type: 'errors', errors: ['Not <b>there</b>.'] })
  document.querySelector('#choose').onclick = () => {
    port.postMessage({ type: 'value', value: 'Harbour' })
    port.postMessage({ type: 'errors', errors: [] })
  }
})
/** 200 messages in each millisecond. */
const flood = (send) => setInterval(() => {
  for (let n = 0; n < 200; n++) send({ type: 'height', height: 100 + n })
}, 1)
document.querySelector('#beside').onclick = () => flood((message) => parent.postMessage(message, '*'))
document.querySelector('#leave').onclick = () => location.assign('other.html')
