// Where the browser begins: the session is asked for before anything else is fetched.

import { begin } from './api/session.ts'

const start = begin()
const main = import('./main.tsx')
void start.then(async () => (await main).show())
