// A component as people will see it, with parameters to try.

import { useState } from 'react'
import { writeJson } from '../../api/json.ts'
import type { Fields, Instance, Json, Use } from '../../api/shapes.ts'
import { ComponentFrame } from '../../generic/component-frame.tsx'
import look from '../../generic/generic.module.css'
import { FieldInput } from '../../generic/input.tsx'
import css from '../../kit/controls.module.css'
import { Select } from '../../kit/fields.tsx'
import { USES } from '../../shared/components/known.ts'
import { parameterFields, withoutEmpty } from '../../shared/components/parameters.ts'
import { named, t } from '../../texts.ts'

export function Preview({ component }: { component: Instance }) {
  const fields = parameterFields(component.parameters)
  const offered = USES.filter((use) => ((component.available_use ?? {}) as Fields)[use] === true)
  const [use, setUse] = useState<Use>(offered[0] ?? 'landing_page')
  const [parameters, setParameters] = useState<Json>({})
  const [value, setValue] = useState<Json>()
  return (
    <section className={look.section}>
      <h2>{t('custom-components.preview')}</h2>
      {offered.length > 1 && (
        <Select
          name="preview-use"
          label={t('custom-components.preview.use')}
          isRequired
          value={use}
          choices={offered.map((one) => ({ value: one, text: named('field', one) }))}
          onChange={(chosen) => setUse(chosen as Use)}
        />
      )}
      {fields.length > 0 && (
        <FieldInput
          field={{ alias: 'parameters', type: 'object', required: true, schema: fields }}
          name="preview-parameters"
          value={parameters}
          onChange={setParameters}
        />
      )}
      <ComponentFrame
        component={Number(component.id)}
        use={use}
        parameters={withoutEmpty(parameters)}
        onValue={(sent) => setValue(sent as Json)}
      />
      <div role="status">
        {value === undefined ? (
          <p className={css.hint}>{t('custom-components.preview.nothing-sent')}</p>
        ) : (
          <>
            <p className={css.hint}>{t('custom-components.preview.value')}</p>
            {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
            <pre className={css.json} tabIndex={0} role="region" aria-label={t('custom-components.preview.value')}>
              {writeJson(value, 2)}
            </pre>
          </>
        )}
      </div>
    </section>
  )
}
