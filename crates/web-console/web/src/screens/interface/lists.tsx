// The views of a class's list that everybody is offered.

import generic from '../../generic/generic.module.css'
import { Link } from '../../generic/go.tsx'
import { Ordered } from '../../generic/ordered.tsx'
import { readViews, searchOf, type View } from '../../generic/ui-contents.ts'
import { useAdded } from '../../kit/added.ts'
import { Button } from '../../kit/buttons.tsx'
import { Selected } from '../../shared/blocks.tsx'
import { moved } from '../../shared/positions.ts'
import type { OpenClass } from '../../shared/records/class.ts'
import { t } from '../../texts.ts'
import { Editor } from './editor.tsx'
import look from './interface.module.css'
import { NameField } from './name-field.tsx'
import { SelectionFields } from './selection.tsx'

const ROWS = 3

export const ListEditor = ({ openClass }: { openClass: OpenClass }) => (
  <Editor
    component={`list-${openClass.id}`}
    understand={readViews}
    form={({ views }, change) => (
      <Form openClass={openClass} views={views} onChange={(next) => change({ views: next })} />
    )}
    preview={({ views }) =>
      views.length === 0 ? (
        <p className={generic.none}>{t('interface.views.none')}</p>
      ) : (
        views.map((view) => (
          <section key={view.name} className={generic.section}>
            <h3>
              <Link to={openClass.resource.route + searchOf(view)}>{view.name}</Link>
            </h3>
            <Selected openClass={openClass} selection={view} limit={ROWS} title={view.name} />
          </section>
        ))
      )
    }
  />
)

function Form({
  openClass,
  views,
  onChange,
}: {
  openClass: OpenClass
  views: View[]
  onChange: (views: View[]) => void
}) {
  /** Returns an unused name. */
  const free = (n = 1): string => {
    const name = n === 1 ? t('interface.view.new') : `${t('interface.view.new')} ${n}`
    return views.some((view) => view.name === name) ? free(n + 1) : name
  }
  const [list, add] = useAdded<HTMLOListElement>(views.length)
  return (
    <>
      {views.length === 0 && <p className={generic.none}>{t('interface.views.none')}</p>}
      <Ordered
        listRef={list}
        label={t('views.shared')}
        items={views}
        keyOf={(_, n) => `${n}`}
        nameOf={({ name }) => name}
        onMove={(from, to) => onChange(moved(views, from, to))}
      >
        {(view, n) => (
          <div className={look.block}>
            <div className={look.line}>
              <h2>{view.name}</h2>
              <Button
                look="quiet"
                icon="trash-2"
                aria-label={t('remove-one', { name: view.name })}
                onPress={() => onChange(views.toSpliced(n, 1))}
              />
            </div>
            <NameField
              label={t('interface.view.name')}
              name={`views.${n}.name`}
              value={view.name}
              isTaken={(name) => views.some((one) => one !== view && one.name === name)}
              onChange={(name) => onChange(views.with(n, { ...view, name }))}
            />
            <SelectionFields
              name={`views.${n}`}
              openClass={openClass}
              selection={view}
              onChange={(next) => onChange(views.with(n, next))}
            />
          </div>
        )}
      </Ordered>
      <div>
        <Button
          icon="plus"
          onPress={() => {
            add()
            onChange([...views, { name: free(), filters: '', ordering: '', columns: [] }])
          }}
        >
          {t('interface.view.add')}
        </Button>
      </div>
    </>
  )
}
