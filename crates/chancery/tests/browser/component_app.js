// Tries the actions that a component may not perform.
import { loaded } from './module.js'

const name = (error) => error.name
const attempt = (work) => {
  try {
    return work()
  } catch (error) {
    return name(error)
  }
}
const later = async (work) => {
  try {
    return await work()
  } catch (error) {
    return name(error)
  }
}
const call = (path, options) => later(async () => {
  const answer = await fetch(new URL(path, new URL(import.meta.url).href), options)
  return `${answer.status} ${await answer.text()}`
})

const found = {
  origin: self.origin,
  module: loaded,
  style: await later(async () => {
    for (let n = 0; n < 100 && document.styleSheets.length === 0; n++) await new Promise((go) => setTimeout(go, 20))
    return getComputedStyle(document.querySelector('#found')).color
  }),
  cookie: attempt(() => document.cookie),
  setCookie: attempt(() => { document.cookie = 'a=b'; return document.cookie }),
  localStorage: attempt(() => localStorage.getItem('token')),
  sessionStorage: attempt(() => sessionStorage.length),
  indexedDB: attempt(() => { indexedDB.open('a'); return 'opened' }),
  caches: await later(async () => { await caches.open('a'); return 'opened' }),
  serviceWorker: await later(async () => { await navigator.serviceWorker.register('module.js'); return 'registered' }),
  parent: attempt(() => parent.document.title),
  api: await call('/api/users/me/'),
  apiWithCookies: await call('/api/security/', { credentials: 'include' }),
  signIn: await call('/api/auth/login/', {
    method: 'POST', credentials: 'include', headers: { 'Content-Type': 'application/json' },
    body: '{"username": "admin@example.com", "password": "correct horse battery"}',
  }),
  popup: attempt(() => (window.open('/') === null ? 'none' : 'opened')),
  form: await later(async () => {
    document.querySelector('form').submit()
    await new Promise((go) => setTimeout(go, 300))
    return 'not sent'
  }),
}
// Its name differs between browsers.
if (found.serviceWorker !== 'registered') found.serviceWorker = 'refused'
document.querySelector('#found').textContent = JSON.stringify(found)
document.title = 'done'
