// The own sessions: browsers, and separately programs and agents that work in the user's name.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { invalidate, page } from '../../api/query.ts'
import { call } from '../../api/request.ts'
import type { Instance } from '../../api/shapes.ts'
import { AskFirst } from '../../generic/ask-first.tsx'
import look from '../../generic/generic.module.css'
import { Turn } from '../../generic/turn.tsx'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Moment, Tag } from '../../kit/values.tsx'
import { type Key, t } from '../../texts.ts'
import { agentName, browserName } from './browser-name.ts'

const PATH = '/api/users/me/sessions/'
const SIZE = 100

/** All browsers have names with the same beginning. An agent may use it, too, and is recognised by its connector. */
const isBrowser = ({ agent, user_agent }: Instance) => !agent && `${user_agent}`.startsWith('Mozilla/')

/** The name that an administrator gave to the connector of an agent. */
const connectorOf = ({ agent }: Instance) => (agent as { connector: { name: string } } | null)?.connector.name

function nameOf(one: Instance): string {
  const connector = connectorOf(one)
  if (connector !== undefined) return agentName(connector, `${one.user_agent}`)
  return isBrowser(one) ? browserName(`${one.user_agent}`) : `${one.user_agent || t('program')}`
}

export function Sessions() {
  const [offset, setOffset] = useState(0)
  const query = (at: number) => page(PATH, `limit=${SIZE}&offset=${at}`)
  const { data } = useQuery(query(offset))
  const [ending, setEnding] = useState<Instance | undefined>()
  if (!data) return null
  const end = async ({ id }: Instance) => {
    await call('DELETE', `${PATH}${id}/`).finally(() => invalidate(PATH))
    setEnding(undefined)
  }
  const list = (title: Key, sessions: Instance[], hint?: Key) =>
    sessions.length > 0 && (
      <>
        <h3>{t(title)}</h3>
        {hint && <p className={css.hint}>{t(hint)}</p>}
        <ul className={look.plain}>
          {sessions.map((one) => (
            <Session key={`${one.id}`} session={one} onEnd={() => setEnding(one)} />
          ))}
        </ul>
      </>
    )
  return (
    <section className={look.section}>
      <h2>{t('sessions')}</h2>
      {list('sessions.browsers', data.results.filter(isBrowser))}
      {list(
        'sessions.programs',
        data.results.filter((one) => !isBrowser(one)),
        'sessions.programs.hint',
      )}
      <Turn page={data} offset={offset} size={SIZE} query={query} onTurn={setOffset} />
      {ending && (
        <AskFirst
          title={t('sessions.end-question', { name: nameOf(ending) })}
          text={t('sessions.ends')}
          action={t('sessions.end')}
          run={() => end(ending)}
          onClose={() => setEnding(undefined)}
        />
      )}
    </section>
  )
}

function Session({ session, onEnd }: { session: Instance; onEnd: () => void }) {
  const name = nameOf(session)
  return (
    <li className={look.member}>
      <span className={look.session}>
        <span title={`${session.user_agent}`}>{name}</span>
        <span className={look.when}>
          {`${session.ip} · `}
          {typeof session.last_used_at === 'string' && <Moment value={session.last_used_at} />}
        </span>
      </span>
      {session.is_current === true ? (
        <Tag value="active">{t('sessions.this')}</Tag>
      ) : (
        <Button look="quiet" aria-label={t('sessions.end-one', { name })} onPress={onEnd}>
          {t('sessions.end')}
        </Button>
      )}
    </li>
  )
}
