// Browsers send a long text. This returns their common name and their system.

const BROWSERS: [RegExp, string][] = [
  [/\bEdgA?\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\bFirefox\/|\bFxiOS\//, 'Firefox'],
  [/Chrome\/|\bCriOS\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
]

const SYSTEMS: [RegExp, string][] = [
  [/\biPhone\b/, 'iPhone'],
  [/\biPad\b/, 'iPad'],
  [/\bAndroid\b/, 'Android'],
  [/\bWindows\b/, 'Windows'],
  [/\bMac OS X\b/, 'macOS'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bLinux\b/, 'Linux'],
]

/** For example `Firefox, Linux`; the text itself if it is unknown. */
export function browserName(text: string): string {
  const names = [BROWSERS, SYSTEMS].flatMap((list) => list.find(([sign]) => sign.test(text))?.[1] ?? [])
  return names.join(', ') || text
}

/** An agent by its connector. Its own name is in quotation marks, because it is not verified. */
export function agentName(connector: string, client: string): string {
  return client && client !== connector ? `${connector} (“${client.replace(/[“”"]/g, "'")}”)` : connector
}
