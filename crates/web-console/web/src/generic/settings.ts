// The settings of one user. They are stored with the account. The theme is also in a cookie, which the server reads so
// that nothing flashes.

import { useQuery } from '@tanstack/react-query'
import { queries } from '../api/query.ts'
import { call, get } from '../api/request.ts'
import { isUnrestricted } from '../api/session.ts'
import type { Fields, Page } from '../api/shapes.ts'
import { switchSingleKeys } from '../kit/keys.ts'
import { sayError } from './failure.tsx'

export interface Settings {
  theme: 'system' | 'light' | 'dark'
  density: 'compact' | 'comfortable'
  singleKeys: boolean
  /** The classes at the top of the menu. */
  pinned: { alias: string; name: string }[]
  /** The views of lists on the home page, by their addresses below `/console`. */
  pinnedViews: { name: string; to: string }[]
  guide: Guide
}

/** The state of the first steps that the API does not contain. */
export interface Guide {
  isDismissed?: boolean
  /** The mail server by which a test was sent last, as `serverOf` names it. */
  tested?: string
  /** The rules for signing in are right as they came. */
  isSignInRight?: boolean
}

const DEFAULTS: Settings = {
  theme: 'system',
  density: 'compact',
  singleKeys: true,
  pinned: [],
  pinnedViews: [],
  guide: {},
}
/** The identity of a mail server by its settings; empty without one. */
export const serverOf = ({ host, port, username }: Fields): string => (host ? `${username}@${host}:${port}` : '')

const ALL = '/api/users/me/preferences/'
const PATH = `${ALL}console/`

function apply({ theme, density, singleKeys }: Settings) {
  const root = document.documentElement
  if (theme === 'system') delete root.dataset.theme
  else root.dataset.theme = theme
  root.dataset.density = density
  switchSingleKeys(singleKeys)
  // biome-ignore lint/suspicious/noDocumentCookie: the cookie store is not in every browser
  document.cookie = `chancery-theme=${theme}; Path=/; SameSite=Lax; Max-Age=${theme === 'system' ? 0 : 31_536_000}`
}

async function read(): Promise<Settings> {
  // A list, since an instance that is not there yet would be an error in the browser's console.
  const { results } = await get<Page>(`${ALL}?key=console`)
  return { ...DEFAULTS, ...(results[0]?.value as Partial<Settings> | undefined) }
}

const query = {
  queryKey: [PATH],
  queryFn: async (): Promise<Settings> => {
    const settings = await read()
    apply(settings)
    return settings
  },
  staleTime: Number.POSITIVE_INFINITY,
}

/** Returns the changed settings from the current ones. */
export type Change = (now: Settings) => Partial<Settings>

/** Changes are sent one after the other. */
let writing = Promise.resolve()

export function useSettings(): [Settings, (change: Change) => void] {
  const { data } = useQuery({ ...query, enabled: isUnrestricted() })
  const change = (changes: Change) => {
    const show = (next: Settings) => {
      queries.setQueryData([PATH], next)
      apply(next)
    }
    if (data) show({ ...data, ...changes(data) })
    writing = writing
      .then(async () => {
        // All settings are written at once, so the stored ones are read before. Another tab may have changed them.
        const stored = await read()
        const next = { ...stored, ...changes(stored) }
        await call('PUT', PATH, { body: { value: next } })
        show(next)
      })
      .catch((error: unknown) => {
        sayError(error)
        return queries.invalidateQueries({ queryKey: [PATH] })
      })
  }
  return [data ?? DEFAULTS, change]
}
