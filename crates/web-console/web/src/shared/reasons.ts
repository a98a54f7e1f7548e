// The reasons why a test of mail or of a token failed.

/** The reasons of the API, by the end of its messages. */
const REASONS = {
  'could not connect': 'connect',
  'the connection could not be secured': 'secure',
  'the sign-in was refused': 'sign-in',
  'a recipient was refused': 'recipient',
} as const

export type Reason = (typeof REASONS)[keyof typeof REASONS]

/** The reason at the end of a message; undefined for any other message. */
export function reasonOf(message: string): Reason | undefined {
  return Object.entries(REASONS).find(([end]) => message.endsWith(`: ${end}`))?.[1]
}
