// The session of this tab. The access token is in this module only. A cookie that scripts cannot read outlives a
// reload; `/api/auth/browser/token/` exchanges it for a token.

import { Refusal } from './refusal.ts'
import type { LoggedOut, Start, User } from './shapes.ts'

type Listener = () => void

const TOKEN = '/api/auth/browser/token/'
const HOME = '/console/'
/** The longest path, in characters, that the page for signing in leads back to. */
const LONGEST_RETURN_TO = 512
const RETURN_TO = 'chancery.return-to'
const listeners = new Set<Listener>()
/** The channel to the other tabs: the id of the user who signed in, or a sign-out. */
const tabs = new BroadcastChannel('chancery-session')
/** The version of the files of this page. */
const OWN_VERSION = /\/assets\/([^/]+)\//.exec(import.meta.url)?.[1]

let current: Start | undefined
let isOver = false
let renewing: Promise<boolean> | undefined
let timer: ReturnType<typeof setTimeout> | undefined
const signedInAgain: (() => void)[] = []
/** The parts of the page that wait for a sign-in in another window, although the session lasts. */
const awaitingSignIn = new Set<() => void>()

function changed() {
  for (const listener of listeners) listener()
}

/** Keeps a start, and plans the next one at four fifths of the token's life. */
function storeStart(start: Start) {
  const before = current?.user?.id
  if (before !== undefined && start.user?.id !== before) {
    location.reload()
    return
  }
  const wasOver = isOver
  isOver = false
  current = before === undefined ? start : { ...current, ...start }
  clearTimeout(timer)
  timer = setTimeout(() => void renew(), start.expires_in * 800)
  if (wasOver) {
    for (const go of signedInAgain.splice(0)) go()
  }
  changed()
}

/** Stores a token. Returns `none` without a session, or the refusal. */
async function exchange(): Promise<'kept' | 'none' | Refusal> {
  const answer = await fetch(TOKEN, { method: 'POST' }).catch(() => undefined)
  if (answer?.status === 200) {
    storeStart(await answer.json())
    return 'kept'
  }
  if (answer?.status === 401) return 'none'
  const body = await answer?.json().catch(() => ({}))
  const after = Number(answer?.headers.get('Retry-After')) || null
  return new Refusal(answer?.status ?? 0, body ?? {}, answer?.headers.get('X-Request-Id') ?? null, after)
}

/**
 * The address to which the sign-in page returns. The page accepts short paths only, so this tab stores a longer one.
 */
function wayBack(): string {
  const here = location.pathname + location.search
  if (here.length <= LONGEST_RETURN_TO && !location.hash) return here
  sessionStorage.setItem(RETURN_TO, here + location.hash)
  return HOME
}

/** Continues at the address that this tab had before the sign-in. */
function goBack() {
  const waiting = sessionStorage.getItem(RETURN_TO)
  sessionStorage.removeItem(RETURN_TO)
  if (waiting?.startsWith(HOME) && location.pathname === HOME && !location.search)
    history.replaceState(null, '', waiting)
}

/**
 * The first request. Without a session, the sign-in page follows, which leads back. `tell` gets any other refusal, with
 * the milliseconds until the next attempt.
 */
export async function begin(tell: (refusal: Refusal, pause: number) => void): Promise<Start> {
  for (let pause = 500; ; pause = Math.min(pause * 2, 10_000)) {
    const outcome = await exchange()
    if (outcome === 'kept' && current) {
      goBack()
      tabs.postMessage({ signedIn: current.user?.id })
      return current
    }
    if (outcome === 'none') {
      location.replace(`/sign-in/?return_to=${encodeURIComponent(wayBack())}`)
      return new Promise(() => {})
    }
    if (outcome instanceof Refusal) {
      pause = Math.max(pause, (outcome.retryAfter ?? 0) * 1000)
      tell(outcome, pause)
    }
    await new Promise((resolve) => setTimeout(resolve, pause))
  }
}

/** Asks for a new token, one request at a time. Returns false if the session is over. */
export function renew(): Promise<boolean> {
  renewing ??= exchange().then((outcome) => {
    renewing = undefined
    if (outcome === 'none' && !isOver) {
      isOver = true
      changed()
    }
    if (outcome instanceof Refusal) {
      clearTimeout(timer)
      timer = setTimeout(() => void renew(), 5000)
    }
    return outcome === 'kept'
  })
  return renewing
}

/** Resolves when a session that was over has begun again. Requests wait here instead of being lost. */
export function signedIn(): Promise<void> {
  return isOver ? new Promise((resolve) => signedInAgain.push(resolve)) : Promise.resolve()
}

export const token = () => current?.access_token
export const session = () => current
export const sessionIsOver = () => isOver

/**
 * False while the user must first change the password or add a second factor. The API then refuses nearly all other
 * requests.
 */
export const isUnrestricted = () =>
  current !== undefined && !current.password_change_required && !current.second_factor_required

/** Opens the page for signing in in a window of its own, which closes after the sign-in. */
export const openSignIn = () =>
  window.open(`/sign-in/?return_to=${encodeURIComponent('/console/signed-in')}`, '_blank', 'width=480,height=720')

/** Calls `run` after each sign-in of the user in another window, with the token of the new session at hand. */
export function onSignIn(run: () => void): () => void {
  awaitingSignIn.add(run)
  return () => awaitingSignIn.delete(run)
}

/** True if the server has another version of the console than this page; undefined if it cannot be reached. */
export async function checkUpdate(): Promise<boolean | undefined> {
  if (!(await renew())) return undefined
  return OWN_VERSION !== undefined && current?.version !== OWN_VERSION
}

/** Stores the changed details of the caller. */
export function setUser(user: User) {
  if (current) current = { ...current, user }
  changed()
}

/** True if a UI configuration of this name may exist. */
export const mayBeConfigured = (name: string) => current?.ui_config?.includes(name) ?? false

/** Adds the name of a stored UI configuration. */
export function addConfigured(name: string) {
  if (current?.ui_config && !current.ui_config.includes(name))
    current = { ...current, ui_config: [...current.ui_config, name] }
}

export function onSession(listener: Listener): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** Ends the session, and leads to the page for signing in. */
export async function signOut() {
  const answer = await fetch('/api/auth/browser/logout/', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ single_sign_on: true }),
  }).catch(() => undefined)
  // One that is over already needs no end.
  if (!answer?.ok && answer?.status !== 401)
    throw new Refusal(answer?.status ?? 0, {}, answer?.headers.get('X-Request-Id') ?? null, null)
  tabs.postMessage('signed-out')
  const onward = answer.status === 200 ? ((await answer.json()) as LoggedOut).logout_url : undefined
  leave(onward ?? '/sign-in/')
}

/**
 * Removes the contents of the page before it leads elsewhere, so that the next user of the browser cannot read them,
 * even by going back.
 */
function leave(to: string) {
  current = undefined
  clearTimeout(timer)
  sessionStorage.removeItem(RETURN_TO)
  document.body.replaceChildren()
  location.replace(to)
}

function tellSignIn(isRenewed: boolean) {
  if (isRenewed) for (const run of awaitingSignIn) run()
}

tabs.onmessage = ({ data }) => {
  if (data.signedIn !== undefined && current) {
    // The contents of this page belong to a user who is no longer signed in here.
    if (current.user && current.user.id !== data.signedIn) location.reload()
    else if (isOver || !current.user || awaitingSignIn.size > 0) void renew().then(tellSignIn)
  }
  if (data === 'signed-out') leave('/sign-in/')
}
