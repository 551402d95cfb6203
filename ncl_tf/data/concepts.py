"""The concepts of YAIB cohorts (van de Water et al., ICLR 2024): names, units as in ricu, plausible ranges.

Ranges are wide: they exclude what no living patient has, and typing errors, not illness. Those of vital signs and blood gases are
ricu's, which has applied them already; tests hold each against the quantiles of the open demos of eICU and MIMIC-III.
"""

from ncl_tf.data.declaration import Channel

STATIC = (
    Channel("age", static=True, low=0, high=120, unit="years"),
    Channel(
        "sex",
        kind="categorical",
        static=True,
        levels=(0, 1),
        spellings={"Female": 0, "Male": 1, "F": 0, "M": 1},
        text_only=True,
    ),
    Channel("height", static=True, low=50, high=250, unit="cm"),
    Channel("weight", static=True, low=20, high=400, unit="kg"),
)

DYNAMIC = (
    Channel("alb", low=0, high=6, unit="g/dL"),  # albumin
    Channel("alp", low=0, high=5000, unit="IU/L"),  # alkaline phosphatase
    Channel("alt", low=0, high=20000, unit="IU/L"),  # alanine aminotransferase
    Channel("ast", low=0, high=30000, unit="IU/L"),  # aspartate aminotransferase
    Channel("be", low=-25, high=25, unit="mmol/L"),  # base excess
    Channel("bicar", low=5, high=50, unit="mmol/L"),  # bicarbonate
    Channel("bili", low=0, high=100, unit="mg/dL"),  # total bilirubin
    Channel("bili_dir", low=0, high=50, unit="mg/dL"),  # direct bilirubin
    Channel("bnd", low=0, high=100, unit="%"),  # band neutrophils
    Channel("bun", low=0, high=200, unit="mg/dL"),  # blood urea nitrogen
    Channel("ca", low=4, high=20, unit="mg/dL"),  # calcium
    Channel("cai", low=0.5, high=2, unit="mmol/L"),  # ionized calcium
    Channel("ck", low=0, high=200000, unit="IU/L"),  # creatine kinase
    Channel("ckmb", low=0, high=2000, unit="ng/mL"),  # creatine kinase MB
    Channel("cl", low=80, high=130, unit="mmol/L"),  # chloride
    Channel("crea", low=0, high=15, unit="mg/dL"),  # creatinine
    Channel("crp", low=0, high=1000, unit="mg/L"),  # C-reactive protein
    Channel("dbp", low=0, high=200, unit="mmHg"),  # diastolic blood pressure
    Channel("fgn", low=0, high=1500, unit="mg/dL"),  # fibrinogen
    Channel("fio2", low=21, high=100, unit="%"),  # fraction of inspired oxygen
    Channel("glu", low=0, high=1000, unit="mg/dL"),  # glucose
    Channel("hgb", low=4, high=18, unit="g/dL"),  # hemoglobin
    Channel("hr", low=0, high=300, unit="beats/min"),  # heart rate
    Channel("inr_pt", low=0, high=20),  # international normalized ratio of the prothrombin time
    Channel("k", low=0, high=10, unit="mmol/L"),  # potassium
    Channel("lact", low=0, high=50, unit="mmol/L"),  # lactate
    Channel("lymph", low=0, high=100, unit="%"),  # lymphocytes
    Channel("map", low=0, high=250, unit="mmHg"),  # mean arterial pressure
    Channel("mch", low=10, high=50, unit="pg"),  # mean cell hemoglobin
    Channel("mchc", low=20, high=50, unit="g/dL"),  # mean corpuscular hemoglobin concentration
    Channel("mcv", low=50, high=150, unit="fL"),  # mean corpuscular volume
    Channel("methb", low=0, high=100, unit="%"),  # methemoglobin
    Channel("mg", low=0.5, high=5, unit="mg/dL"),  # magnesium
    Channel("na", low=110, high=165, unit="mmol/L"),  # sodium
    Channel("neut", low=0, high=100, unit="%"),  # neutrophils
    Channel("o2sat", low=50, high=100, unit="%"),  # oxygen saturation
    Channel("pco2", low=10, high=150, unit="mmHg"),  # partial pressure of carbon dioxide
    Channel("ph", low=6.8, high=8),  # of blood
    Channel("phos", low=0, high=40, unit="mg/dL"),  # phosphate
    Channel("plt", low=5, high=1200, unit="10^3/uL"),  # platelets
    Channel("po2", low=40, high=600, unit="mmHg"),  # partial pressure of oxygen
    Channel("ptt", low=0, high=250, unit="s"),  # partial thromboplastin time
    Channel("resp", low=0, high=120, unit="breaths/min"),  # respiratory rate
    Channel("sbp", low=0, high=300, unit="mmHg"),  # systolic blood pressure
    Channel("temp", low=32, high=42, unit="deg C"),  # temperature
    Channel("tnt", low=0, high=100, unit="ng/mL"),  # troponin T
    Channel("urine", low=0, high=5000, unit="mL"),  # output since the hour before
    Channel("wbc", low=0, high=500, unit="10^3/uL"),  # white blood cells
)

HOUR = Channel("time", unit="hours")
CONCEPTS = {channel.name: channel for channel in (*STATIC, *DYNAMIC)}
