// What became of a test, where it was begun: in one sentence, with what to do about it.

import look from '../generic/generic.module.css'
import css from '../kit/controls.module.css'
import { type Key, t } from '../texts.ts'

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

export function Outcome({ isGood, title, advice = [] }: { isGood: boolean; title: string; advice?: string[] }) {
  return (
    <div className={css.notice} data-tone={isGood ? 'ok' : 'danger'}>
      <p>{title}</p>
      {advice.length > 0 && (
        <ul className={look.problems}>
          {advice.map((text) => (
            <li key={text}>{text}</li>
          ))}
        </ul>
      )}
    </div>
  )
}

/** Why a test of `kind` failed, and what to do. */
export function Failed({ kind, message }: { kind: 'mail' | 'token'; message: string }) {
  const reason = reasonOf(message)
  if (!reason) return <Outcome isGood={false} title={message} />
  const advice = t(`${kind}.failed.${reason}.advice` as Key).split('\n')
  return <Outcome isGood={false} title={t(`${kind}.failed.${reason}` as Key)} advice={advice} />
}
