// Browsers tell a long text of themselves: what people call them, and what they run on.

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

/** Such as `Firefox, Linux`; the text itself where nothing in it is known. */
export function browserName(text: string): string {
  const names = [BROWSERS, SYSTEMS].flatMap((list) => list.find(([sign]) => sign.test(text))?.[1] ?? [])
  return names.join(', ') || text
}

/** An agent by its connector, and in quotation marks what it calls itself: nobody has verified that. */
export function agentName(connector: string, client: string): string {
  return client && client !== connector ? `${connector} (“${client.replace(/[“”"]/g, "'")}”)` : connector
}
