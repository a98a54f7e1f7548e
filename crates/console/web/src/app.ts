// Where the browser begins: the session is asked for before anything else is fetched.

import { begin } from './api/session.ts'
import { beginTheme } from './api/theme.ts'

const start = begin((refusal, pause) => void main.then(({ tellOfStart }) => tellOfStart(refusal, pause)))
beginTheme()
const main = import('./main.tsx')
void start.then(async () => (await main).show())
