// The conformance suite imports `globSync`, which Node.js has from version 22 on, for a command that this test does not use.

import { register } from 'node:module'

const script = (text) => `data:text/javascript,${encodeURIComponent(text)}`
const fs = script('export * from "node:fs"; export const globSync = () => []')
register(script(`
  export const resolve = (specifier, context, next) => specifier === 'fs' && context.parentURL.includes('/conformance')
    ? { url: ${JSON.stringify(fs)}, shortCircuit: true }
    : next(specifier, context)
`))
