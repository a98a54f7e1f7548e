// Who is signed in. The access token lives in this module alone; what outlives a reload is a cookie that no script reads,
// exchanged for a token at `/api/auth/browser/token/`.

import { Refusal } from './refusal.ts'
import type { LoggedOut, Start, User } from './shapes.ts'

type Listener = () => void

const TOKEN = '/api/auth/browser/token/'
const HOME = '/console/'
/** The longest path, in characters, that the page for signing in leads back to. */
const LONGEST_RETURN_TO = 512
const RETURN_TO = 'chancery.return-to'
const listeners = new Set<Listener>()
/** Tells the other tabs who signed in, by the id; or that they signed out. */
const tabs = new BroadcastChannel('chancery-session')
/** The version of the files that this page is made of. */
const OWN_VERSION = /\/assets\/([^/]+)\//.exec(import.meta.url)?.[1]

let current: Start | undefined
let isOver = false
let renewing: Promise<boolean> | undefined
let timer: ReturnType<typeof setTimeout> | undefined
const signedInAgain: (() => void)[] = []

function changed() {
  for (const listener of listeners) listener()
}

/** Keeps a start, and plans the next one at four fifths of the token's life. */
function keep(start: Start) {
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

/** A token, `none` without a session, or why there is no telling. */
async function exchange(): Promise<'kept' | 'none' | Refusal> {
  const answer = await fetch(TOKEN, { method: 'POST' }).catch(() => undefined)
  if (answer?.status === 200) {
    keep(await answer.json())
    return 'kept'
  }
  if (answer?.status === 401) return 'none'
  const body = await answer?.json().catch(() => ({}))
  const after = Number(answer?.headers.get('Retry-After')) || null
  return new Refusal(answer?.status ?? 0, body ?? {}, answer?.headers.get('X-Request-Id') ?? null, after)
}

/** Where the page for signing in leads back to. It takes short paths alone: a longer one waits in this tab. */
function wayBack(): string {
  const here = location.pathname + location.search
  if (here.length <= LONGEST_RETURN_TO && !location.hash) return here
  sessionStorage.setItem(RETURN_TO, here + location.hash)
  return HOME
}

/** Goes on where this tab was before somebody signed in. */
function goBack() {
  const waiting = sessionStorage.getItem(RETURN_TO)
  sessionStorage.removeItem(RETURN_TO)
  if (waiting?.startsWith(HOME) && location.pathname === HOME && !location.search)
    history.replaceState(null, '', waiting)
}

/** The first request of all. Without a session the page for signing in follows, which leads back. What else is answered is
 * told, with the milliseconds after which it is tried again. */
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

/** Asks for a new token, one request at a time; false when the session is over. */
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

/** Resolves when a session that was over has begun anew: requests wait here instead of being lost. */
export function signedIn(): Promise<void> {
  return isOver ? new Promise((resolve) => signedInAgain.push(resolve)) : Promise.resolve()
}

export const token = () => current?.access_token
export const session = () => current
export const sessionIsOver = () => isOver

/** Whether the server has another console than this page, or cannot be asked. */
export async function isUpdated(): Promise<boolean | undefined> {
  if (!(await renew())) return undefined
  return OWN_VERSION !== undefined && current?.version !== OWN_VERSION
}

/** After somebody changed what is known of himself. */
export function userIs(user: User) {
  if (current) current = { ...current, user }
  changed()
}

/** Whether there is a UI configuration of this name. */
export const mayBeConfigured = (name: string) => current?.ui_config?.includes(name) ?? false

/** After one was kept. */
export function isConfigured(name: string) {
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

/** Takes away what the page shows before it leads elsewhere: whoever sits down here next finds nothing of it, nor by going back. */
function leave(to: string) {
  current = undefined
  clearTimeout(timer)
  sessionStorage.removeItem(RETURN_TO)
  document.body.replaceChildren()
  location.replace(to)
}

tabs.onmessage = ({ data }) => {
  if (data.signedIn !== undefined && current) {
    // What this page shows and holds is of somebody who is no longer signed in here.
    if (current.user && current.user.id !== data.signedIn) location.reload()
    else if (isOver || !current.user) void renew()
  }
  if (data === 'signed-out') leave('/sign-in/')
}
