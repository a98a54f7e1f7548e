// Why a test of mail or of a token failed.

/** The reasons that the API tells, by how its messages end. */
const REASONS = {
  'could not connect': 'connect',
  'the connection could not be secured': 'secure',
  'the sign-in was refused': 'sign-in',
  'a recipient was refused': 'recipient',
} as const

export type Reason = (typeof REASONS)[keyof typeof REASONS]

/** The reason with which a message ends; undefined where it is another message. */
export function reasonOf(message: string): Reason | undefined {
  return Object.entries(REASONS).find(([end]) => message.endsWith(`: ${end}`))?.[1]
}
