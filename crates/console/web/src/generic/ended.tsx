// What somebody has and can end: one line each, and a question before it goes.

import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { page, wrote } from '../api/query.ts'
import { call } from '../api/request.ts'
import type { Instance } from '../api/shapes.ts'
import { Button } from '../kit/buttons.tsx'
import { type Key, t } from '../texts.ts'
import { AskFirst } from './ask-first.tsx'
import look from './generic.module.css'
import { Turn } from './turn.tsx'

const SIZE = 25

/** Nothing where there are none, or where the caller may not see them. */
export function Ended({
  title,
  path,
  nameOf,
  action,
  question,
  canEnd = () => true,
  children,
}: {
  title: Key
  path: string
  nameOf: (line: Instance) => string
  action: Key
  question: Key
  canEnd?: (line: Instance) => boolean
  children: (line: Instance) => ReactNode
}) {
  const [offset, setOffset] = useState(0)
  const query = (at: number) => page(path, `limit=${SIZE}&offset=${at}`)
  const { data } = useQuery(query(offset))
  const [asked, setAsked] = useState<Instance | undefined>()
  if (!data || (data.results.length === 0 && offset === 0)) return null
  const end = async ({ id }: Instance) => {
    await call('DELETE', `${path}${id}/`)
    setAsked(undefined)
    await wrote(path)
  }
  return (
    <section className={look.section}>
      <h2>{t(title)}</h2>
      <ul className={look.plain}>
        {data.results.map((line) => (
          <li key={`${line.id}`} className={look.member}>
            <span>{children(line)}</span>
            {canEnd(line) && (
              <Button look="quiet" onPress={() => setAsked(line)}>
                {t(action)}
              </Button>
            )}
          </li>
        ))}
      </ul>
      <Turn page={data} offset={offset} size={SIZE} query={query} onTurn={setOffset} />
      {asked && (
        <AskFirst
          title={`${t(action)}: ${nameOf(asked)}`}
          text={t(question)}
          action={t(action)}
          run={() => end(asked)}
          onClose={() => setAsked(undefined)}
        />
      )}
    </section>
  )
}
