// The entry point. It asks for the session before it fetches anything else.

import { begin, mayBeConfigured, onSession, session } from './api/session.ts'
import { applyTheme, askTheme, beginTheme } from './api/theme.ts'

const stop = onSession(() => {
  if (session()?.ui_config === null) return
  stop()
  if (mayBeConfigured('theme')) void askTheme().catch(() => {})
  else applyTheme({}, undefined)
})
const start = begin((refusal, pause) => void main.then(({ tellOfStart }) => tellOfStart(refusal, pause)))
beginTheme()
// A page that the browser stored for going back shows contents from before a sign-out.
addEventListener('pageshow', ({ persisted }) => {
  if (persisted) location.reload()
})
const main = import('./main.tsx')
void start.then(async () => (await main).show())
