// The grants of a connector in the record permission sets of its classes. They are read when the user opens them.

import { useQueries, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { anything, page } from '../../api/query.ts'
import type { Fields, Instance, Json } from '../../api/shapes.ts'
import { Reading } from '../../generic/failure.tsx'
import generic from '../../generic/generic.module.css'
import { Link } from '../../generic/go.tsx'
import type { PanelProps } from '../../generic/resource.ts'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Tag } from '../../kit/values.tsx'
import { named, t } from '../../texts.ts'

/** The number of classes that are read at once. */
const STEP = 10
/** A class has no more sets than a page may have lines. */
const SETS = 'limit=100'

interface Given {
  set: string
  actions: string[]
}

/** The sets that give something to a connector. */
function givenBy(sets: Instance[], connector: number): Given[] {
  return sets.flatMap((set) => {
    const entries = Array.isArray(set.mcp_permissions) ? (set.mcp_permissions as Fields[]) : []
    const granted = entries.find((entry) => entry.connector === connector)?.permissions as
      | { [resource: string]: Json }
      | undefined
    const actions = Object.entries(granted ?? {}).flatMap(([resource, list]) =>
      Array.isArray(list)
        ? list.map((action) => `${named('resource', resource)}: ${named('action', `${action}`)}`)
        : [],
    )
    return actions.length > 0 ? [{ set: `${set.name}`, actions }] : []
  })
}

export function WhatItHas({ instance }: PanelProps) {
  const [isWanted, setIsWanted] = useState(false)
  return (
    <section className={generic.section}>
      <h2>{t('connectors.has')}</h2>
      <p className={css.hint}>{t('connectors.has.hint')}</p>
      {isWanted ? (
        <Classes integration={`${instance.integration}`} connector={Number(instance.id)} />
      ) : (
        <div>
          <Button onPress={() => setIsWanted(true)}>{t('connectors.has.show')}</Button>
        </div>
      )}
    </section>
  )
}

function Classes({ integration, connector }: { integration: string; connector: number }) {
  const read = useQuery(anything<Instance>(`/api/integrations/${integration}/`))
  const { data } = read
  const [count, setCount] = useState(STEP)
  const own = data?.object_class
  const more = Array.isArray(data?.object_classes) ? data.object_classes : []
  const ids = [...new Set([own, ...more].flatMap((id) => (typeof id === 'number' ? [id] : [])))]
  const names: { [id: string]: Json } = {
    ...((data?._meta?.labels?.object_classes ?? {}) as Fields),
    ...(typeof own === 'number' && { [own]: data?._meta?.labels?.object_class ?? null }),
  }
  const shownIds = ids.slice(0, count)
  const sets = useQueries({
    queries: shownIds.map((id) => page(`/api/object-classes/${id}/record-permission-sets/`, SETS)),
  })
  if (!data) return <Reading of={[read]} />
  if (ids.length === 0) return <p className={generic.none}>{t('connectors.has.no-class')}</p>
  return (
    <>
      {shownIds.map((id, n) => {
        const setsQuery = sets[n]
        const grants = givenBy(setsQuery?.data?.results ?? [], connector)
        return (
          <div key={id}>
            <h3>
              <Link to={`/admin/classes/${id}`}>{`${names[id] ?? t('connectors.has.class', { id })}`}</Link>
            </h3>
            {setsQuery && <Reading of={[setsQuery]} />}
            {setsQuery?.data && grants.length === 0 && <p className={generic.none}>{t('connectors.has.nothing')}</p>}
            {grants.length > 0 && (
              <dl className={generic.facts}>
                {grants.map(({ set, actions }) => (
                  <div key={set} className={generic.fact}>
                    <dt>{set}</dt>
                    <dd>
                      <span className={css.tags}>
                        {actions.map((action) => (
                          <Tag key={action}>{action}</Tag>
                        ))}
                      </span>
                    </dd>
                  </div>
                ))}
              </dl>
            )}
          </div>
        )
      })}
      {ids.length > count && (
        <div>
          <Button onPress={() => setCount(count + STEP)}>{t('show-more', { count: ids.length - count })}</Button>
        </div>
      )}
    </>
  )
}
