// Runs the component tests in `dom/`: Vite compiles them, happy-dom is their browser.

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { after } from 'node:test'
import { Window } from 'happy-dom'
import { createServer } from 'vite'

const window = new Window({ url: 'http://localhost/console/', width: 1280, height: 900 })

/** Defines the browser's globals. Node's own timers, fetch and encoders stay. */
function defineGlobals() {
  const own = new Set(Object.getOwnPropertyNames(globalThis))
  const replaced = ['navigator', 'Event', 'CustomEvent', 'EventTarget', 'MessageEvent', 'Blob', 'File', 'FormData']
  for (const name of Object.getOwnPropertyNames(window)) {
    if (own.has(name) && !replaced.includes(name)) continue
    const value = (window as unknown as { [name: string]: unknown })[name]
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true })
  }
  Object.assign(globalThis, {
    window,
    IS_REACT_ACT_ENVIRONMENT: true,
    // Node's channel keeps the process alive.
    BroadcastChannel: class {
      postMessage() {}
    },
  })
}

defineGlobals()
const server = await createServer({
  root: join(import.meta.dirname, '..'),
  logLevel: 'error',
  appType: 'custom',
  server: { middlewareMode: true, hmr: false, ws: false, watch: null },
  optimizeDeps: { noDiscovery: true },
  // Node would load the build for servers.
  ssr: { noExternal: [/^@tanstack\//] },
})
after(async () => {
  await server.close()
  await window.happyDOM.close()
})
const folder = join(import.meta.dirname, 'dom')
for (const name of readdirSync(folder).filter((file) => file.endsWith('.dom.tsx')))
  await server.ssrLoadModule(join(folder, name))
