// The theme of the build: `/ui-config/theme/`. The browser stores the last one, so that nothing flashes before the
// sign-in is known.

import { parseJson, writeJson } from './json.ts'
import type { Json } from './shapes.ts'
import { type Reading, reading } from './written.ts'

export interface Theme {
  /** The hue of the accent, in degrees. */
  hue?: number | undefined
  name?: string | undefined
  /** The path of a public file. */
  logo?: string | undefined
}

export const HUE = 262
const PATH = '/ui-config/theme/'
const KEPT = 'chancery-interface-theme'
const LOGO = /^\/api\/files\/public-storage\/[0-9a-f-]{36}\/$/

export const readTheme = (content: Json | undefined): Reading<Theme> =>
  reading<Theme>(content, ['hue', 'name', 'logo'], {}, (top) => ({
    hue: top.at('hue').whole(0, 360),
    name: top.at('name').text(60),
    logo: top.at('logo').text(100, (path) => LOGO.test(path)),
  }))

let current: Theme = {}
const listeners = new Set<() => void>()

/** Shows the console in a theme. `kept`: the text that the browser stores; null leaves the stored one. */
export function applyTheme(theme: Theme, stored: Json | undefined | null = null) {
  current = theme
  document.documentElement.style.setProperty('--hue', `${theme.hue ?? HUE}`)
  for (const listener of listeners) listener()
  try {
    if (stored === undefined) localStorage.removeItem(KEPT)
    else if (stored !== null) localStorage.setItem(KEPT, writeJson(stored))
  } catch {
    // A browser without storage shows the theme a moment later.
  }
}

export const theme = () => current

export function onTheme(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** Shows the theme that the browser stores. */
export function beginTheme() {
  try {
    const stored = localStorage.getItem(KEPT)
    if (stored) applyTheme(readTheme(parseJson(stored)).content)
  } catch {
    // The stored theme is only a help.
  }
}

/** Reads the current theme. */
export async function askTheme() {
  const answer = await fetch(PATH)
  if (answer.status === 404) return applyTheme({}, undefined)
  if (!answer.ok) return
  const content = parseJson((await answer.json()).content)
  applyTheme(readTheme(content).content, content)
}
